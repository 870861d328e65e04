'use strict';
// Drives a RocketMQ-compatible cluster with the Node client ali-ons and checks what comes back.
//
//   node probe.js SCENARIO --namesrv 127.0.0.1:9876 --topic T --group G [--count N] [--timeout-ms 180000]
//
// SCENARIO is one of sends, tags, ordered. Each sends its own messages to a topic of its own, reads them back
// and prints one line of JSON; the exit code is 0 when everything held, 1 when not. The client knows neither
// one-way nor batch sends, no pull consumer and no queue locks, so those are left to the other clients.

const { parseArgs } = require('node:util');
const { Consumer, Message, Producer } = require('ali-ons');

const silent = { info() {}, warn() {}, error() {}, debug() {} };
// The client insists on an HTTP client; with a name server's address given it never calls it.
const noHttp = { request() { throw new Error('no HTTP look-up of name servers is wanted here'); } };

function shared(to) {
  return { httpclient: noHttp, nameSrv: to.namesrv, logger: silent, clientIP: '127.0.0.1' };
}

async function startProducer(to) {
  const producer = new Producer({ ...shared(to), producerGroup: `${to.group}P` });
  producer.on('error', () => {}); // every failure that matters also rejects the send
  await producer.ready();
  await createTopic(to, producer._mqClient);
  return producer;
}

/**
 * Creates the topic by the client's own request (code 17): its producer gives up at once on a topic without a
 * route, so it cannot make the broker create one by sending. Returns when the name server knows the route.
 */
async function createTopic(to, client) {
  const template = 'TBW102';
  const { brokerDatas } = await client.getDefaultTopicRouteInfoFromNameServer(template, 15000);
  const config = {
    topicName: to.topic,
    readQueueNums: 4,
    writeQueueNums: 4,
    perm: 6,
    topicFilterType: 'SINGLE_TAG',
    topicSysFlag: 0,
    order: false,
  };
  await client.createTopic(brokerDatas[0].brokerAddrs[0], template, config, 15000);
  for (const deadline = Date.now() + to.timeoutMs; ;) {
    try {
      await client.getTopicRouteInfoFromNameServer(to.topic, 15000);
      return;
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await new Promise(resolve => setTimeout(resolve, 100));
    }
  }
}

async function send(producer, message) {
  const result = await producer.send(message);
  if (result.sendStatus !== 'SEND_OK') throw new Error(`send answered ${result.sendStatus}`);
  if (!/^[0-9A-F]{32}$/.test(result.msgId)) throw new Error(`offset id ${result.msgId}`);
  return result;
}

/** Resolves with the messages in their order of arrival once `wanted` different bodies have come. */
async function receive(to, expression, wanted) {
  const consumer = new Consumer({
    ...shared(to),
    consumerGroup: to.group,
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
  });
  const bodies = new Set();
  const messages = [];
  let failure = '';
  consumer.on('error', error => { failure = error.message; });
  await new Promise((resolve, reject) => {
    const late = () => reject(new Error(`${bodies.size} of ${wanted} messages came; last failure: ${failure}`));
    const timer = setTimeout(late, to.timeoutMs);
    consumer.subscribe(to.topic, expression, async message => {
      messages.push(message);
      bodies.add(message.body.toString());
      if (bodies.size === wanted) {
        clearTimeout(timer);
        resolve();
      }
    });
  });
  return messages;
}

/** The bodies in the order in which each came first: a message may come again. */
function distinct(messages) {
  return [...new Set(messages.map(message => message.body.toString()))];
}

function compare(sent, messages) {
  const came = new Set(distinct(messages));
  for (const body of sent) if (!came.has(body)) throw new Error(`missing ${body.slice(0, 60)}`);
  for (const body of came) if (!sent.has(body)) throw new Error(`never sent ${body.slice(0, 60)}`);
}

async function sends(to, facts) {
  const producer = await startProducer(to);
  const sent = new Set();
  for (let number = 0; number < to.count; number++) {
    const message = new Message(to.topic, 'TagA', `sync ${number} é漢`);
    message.keys = [`key-${number}`];
    sent.add(message.body.toString());
    await send(producer, message);
  }
  const together = [];
  for (let number = 0; number < to.count; number++) {
    const message = new Message(to.topic, 'TagA', `async ${number}`);
    sent.add(message.body.toString());
    together.push(send(producer, message));
  }
  await Promise.all(together);
  const large = 'compress me '.repeat(1000);
  sent.add(large);
  await send(producer, new Message(to.topic, 'TagA', large));
  facts.sent = sent.size;

  const messages = await receive(to, '*', sent.size);
  facts.received = distinct(messages).length;
  compare(sent, messages);
  const first = messages.find(message => message.body.toString() === 'sync 0 é漢');
  if (first.keys !== 'key-0' || first.tags !== 'TagA') throw new Error(`keys ${first.keys}, tags ${first.tags}`);
}

async function tags(to, facts) {
  const producer = await startProducer(to);
  const wanted = new Set();
  for (let number = 0; number < to.count; number++) {
    for (const tag of ['TagA', 'TagB', 'TagC']) {
      const body = `${tag} ${number}`;
      await send(producer, new Message(to.topic, tag, body));
      if (tag !== 'TagB') wanted.add(body);
    }
  }
  facts.sent = 3 * to.count;
  const messages = await receive(to, 'TagA || TagC', wanted.size);
  facts.received = distinct(messages).length;
  compare(wanted, messages);
}

/**
 * Sends by sharding key. The client has no orderly consumer (it never locks queues) but reads each queue one
 * message at a time. It also forgets a key that hashes to queue 0 (it takes the number 0 for "none") and sends
 * such messages round robin, so order is asked only of the keys that stayed in one queue.
 */
async function ordered(to, facts) {
  const producer = await startProducer(to);
  const keys = ['red', 'green', 'blue', 'black', 'white', 'grey', 'pink', 'teal'];
  const queues = new Map(keys.map(key => [key, new Set()]));
  for (let number = 0; number < to.count; number++) {
    for (const key of keys) {
      const message = new Message(to.topic, 'TagA', `${key} ${number}`);
      message.shardingKey = key;
      const result = await send(producer, message);
      queues.get(key).add(Number(result.messageQueue.queueId));
    }
  }
  const steady = keys.filter(key => queues.get(key).size === 1);
  if (!steady.length) throw new Error('no key stayed in one queue');
  facts.sent = keys.length * to.count;
  facts.keys_in_one_queue = steady.length;

  const messages = await receive(to, 'TagA', keys.length * to.count);
  facts.received = distinct(messages).length;
  for (const key of steady) {
    const numbers = distinct(messages)
      .map(body => body.split(' '))
      .filter(([name]) => name === key)
      .map(([, number]) => Number(number));
    if (numbers.some((number, index) => number !== index)) throw new Error(`order of ${key}: ${numbers}`);
  }
}

async function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      namesrv: { type: 'string', default: '127.0.0.1:9876' },
      topic: { type: 'string', default: 'NodeProbe' },
      group: { type: 'string', default: 'NodeProbeGroup' },
      count: { type: 'string', default: '20' },
      'timeout-ms': { type: 'string', default: '180000' },
    },
  });
  const scenario = positionals[0];
  const to = { ...values, count: Number(values.count), timeoutMs: Number(values['timeout-ms']) };
  const run = { sends, tags, ordered }[scenario];
  const outcome = { scenario, ok: false, facts: {} };
  try {
    if (!run) throw new Error('name a scenario: sends, tags, ordered');
    await run(to, outcome.facts);
    outcome.ok = true;
  } catch (error) {
    outcome.error = error.message;
  }
  // The client's timers would keep the process alive for half a minute; nothing of it is needed any more.
  process.stdout.write(`${JSON.stringify(outcome)}\n`, () => process.exit(outcome.ok ? 0 : 1));
}

main();
