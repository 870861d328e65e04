// Command probe drives a RocketMQ-compatible cluster with Apache's Go client and checks what comes back.
//
//	probe SCENARIO -namesrv 127.0.0.1:9876 -topic T -group G [-count N] [-timeout 3m]
//
// SCENARIO is one of sends, tags, ordered, pull, retry. Each sends its own messages to a topic of its own,
// reads them back, and prints one line of JSON; the exit code is 0 when everything held, 1 when not.
// It knows nothing of who answers: the same program runs against Apache's broker and against ours.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/apache/rocketmq-client-go/v2/rlog"
)

// target says where to connect and how much to do; every scenario takes it.
type target struct {
	namesrv string
	topic   string
	group   string
	count   int
	timeout time.Duration
}

// outcome is the printed line. Facts hold what the scenario saw, by name.
type outcome struct {
	Scenario string         `json:"scenario"`
	OK       bool           `json:"ok"`
	Error    string         `json:"error,omitempty"`
	Facts    map[string]any `json:"facts"`
}

var scenarios = map[string]func(target, map[string]any) error{
	"sends":   runSends,
	"tags":    runTags,
	"ordered": runOrdered,
	"pull":    runPull,
	"retry":   runRetry,
}

func main() {
	// The client logs every step at info level, to stdout, where only the outcome belongs.
	rlog.SetLogLevel("error")
	if err := rlog.SetOutputPath(os.DevNull); err != nil {
		fail("", err)
	}
	if len(os.Args) < 2 {
		fail("", fmt.Errorf("name a scenario: sends, tags, ordered, pull, retry"))
	}
	name := os.Args[1]
	run, known := scenarios[name]
	if !known {
		fail(name, fmt.Errorf("no such scenario"))
	}
	flags := flag.NewFlagSet(name, flag.ExitOnError)
	var to target
	flags.StringVar(&to.namesrv, "namesrv", "127.0.0.1:9876", "address of the name server")
	flags.StringVar(&to.topic, "topic", "GoProbe", "topic; the scenario expects it to be its own")
	flags.StringVar(&to.group, "group", "GoProbeGroup", "consumer group; the producer's is this plus P")
	flags.IntVar(&to.count, "count", 20, "messages of each kind")
	flags.DurationVar(&to.timeout, "timeout", 3*time.Minute, "how long to wait for messages")
	_ = flags.Parse(os.Args[2:])

	facts := map[string]any{}
	if err := run(to, facts); err != nil {
		report(outcome{Scenario: name, Error: err.Error(), Facts: facts})
		os.Exit(1)
	}
	report(outcome{Scenario: name, OK: true, Facts: facts})
}

func fail(name string, err error) {
	report(outcome{Scenario: name, Error: err.Error(), Facts: map[string]any{}})
	os.Exit(1)
}

func report(line outcome) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}
