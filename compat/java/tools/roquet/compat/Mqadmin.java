package roquet.compat;

import com.alibaba.fastjson2.JSON;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.commons.cli.CommandLine;
import org.apache.commons.cli.DefaultParser;
import org.apache.commons.cli.Options;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.srvutil.ServerUtil;
import org.apache.rocketmq.tools.command.MQAdminStartup;
import org.apache.rocketmq.tools.command.SubCommand;

/**
 * Runs many mqadmin command lines in one JVM: a line of tab-separated words in, a JSON line out.
 *
 * <p>It takes Apache's sub-commands from their own list and parses the options itself, because Apache's main
 * ends the process on a wrong option. What a command prints to either stream is its output. The requests
 * that it sent, with the codes of their answers, are listed beside it.
 */
public final class Mqadmin {
    private Mqadmin() {
    }

    /** Apache's list of sub-commands, which only its heirs may see. */
    private static final class Commands extends MQAdminStartup {
        static List<SubCommand> all() {
            return SUB_COMMANDS;
        }
    }

    /** Notes every answered request as "code=answer @address {fields}". */
    private static final class Notes implements RPCHook {
        final List<String> lines = Collections.synchronizedList(new ArrayList<>());

        @Override
        public void doBeforeRequest(String address, RemotingCommand request) {
            if (request.isOnewayRPC()) {
                lines.add(request.getCode() + "=oneway @" + address + " " + request.getExtFields());
            }
        }

        @Override
        public void doAfterResponse(String address, RemotingCommand request, RemotingCommand response) {
            String answer = response == null ? "none" : String.valueOf(response.getCode());
            lines.add(request.getCode() + "=" + answer + " @" + address + " " + request.getExtFields());
        }
    }

    public static void main(String[] none) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        MQAdminStartup.initCommand();
        Hurry.start();
        var requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.println(JSON.toJSONString(run(line.split("\t"))));
        }
        System.exit(0);
    }

    private static Map<String, Object> run(String[] words) {
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        PrintStream captured = new PrintStream(output, true, StandardCharsets.UTF_8);
        PrintStream plain = System.out;
        PrintStream errors = System.err;
        Notes notes = new Notes();
        boolean ok = false;
        System.setOut(captured);
        System.setErr(captured);
        try {
            execute(words, notes);
            ok = true;
        } catch (Exception problem) {
            problem.printStackTrace(captured);
        } finally {
            System.setOut(plain);
            System.setErr(errors);
        }
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("ok", ok);
        answer.put("output", output.toString(StandardCharsets.UTF_8));
        answer.put("requests", new ArrayList<>(Arrays.asList(notes.lines.toArray())));
        return answer;
    }

    private static void execute(String[] words, RPCHook hook) throws Exception {
        SubCommand listed = Commands.all().stream()
            .filter(each -> each.commandName().equalsIgnoreCase(words[0]))
            .findFirst()
            .orElseThrow(() -> new IllegalArgumentException("mqadmin has no command " + words[0]));
        // Some commands keep a client in a field and can run only once.
        SubCommand command = listed.getClass().getDeclaredConstructor().newInstance();
        Options options = command.buildCommandlineOptions(ServerUtil.buildCommandlineOptions(new Options()));
        String[] arguments = Arrays.copyOfRange(words, 1, words.length);
        CommandLine line = new DefaultParser().parse(options, arguments);
        if (line.hasOption('n')) {
            System.setProperty(MixAll.NAMESRV_ADDR_PROPERTY, line.getOptionValue('n'));
        }
        command.execute(line, options, hook);
    }
}
