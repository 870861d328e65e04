package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// runSends uses every way to send (sync, async, one-way, batch, a body large enough to be compressed)
// and reads all of it with a push consumer.
func runSends(to target, facts map[string]any) error {
	made, err := startProducer(to)
	if err != nil {
		return err
	}
	defer made.Shutdown()
	ctx := context.Background()
	sent := map[string]bool{}
	message := func(kind string, number int) *primitive.Message {
		body := fmt.Sprintf("%s %d é漢", kind, number)
		sent[body] = true
		return primitive.NewMessage(to.topic, []byte(body)).WithKeys([]string{fmt.Sprintf("%s-%d", kind, number)})
	}

	for number := 0; number < to.count; number++ {
		result, err := made.SendSync(ctx, message("sync", number))
		if err != nil {
			return fmt.Errorf("send sync %d: %w", number, err)
		}
		if result.Status != primitive.SendOK || len(result.OffsetMsgID) != 32 {
			return fmt.Errorf("send sync %d: status %d, offset id %q", number, result.Status, result.OffsetMsgID)
		}
	}

	var waiting sync.WaitGroup
	var failed atomic.Value
	for number := 0; number < to.count; number++ {
		waiting.Add(1)
		err := made.SendAsync(ctx, func(_ context.Context, result *primitive.SendResult, err error) {
			defer waiting.Done()
			if err != nil {
				failed.Store(err.Error())
			} else if result.Status != primitive.SendOK {
				failed.Store(fmt.Sprintf("status %d", result.Status))
			}
		}, message("async", number))
		if err != nil {
			return fmt.Errorf("send async %d: %w", number, err)
		}
	}
	waiting.Wait()
	if text := failed.Load(); text != nil {
		return fmt.Errorf("send async: %v", text)
	}

	for number := 0; number < to.count; number++ {
		if err := made.SendOneWay(ctx, message("oneway", number)); err != nil {
			return fmt.Errorf("send one-way %d: %w", number, err)
		}
	}

	var batch []*primitive.Message
	for number := 0; number < to.count; number++ {
		batch = append(batch, message("batch", number))
	}
	result, err := made.SendSync(ctx, batch...)
	if err != nil {
		return fmt.Errorf("send batch: %w", err)
	}
	if ids := strings.Count(result.OffsetMsgID, ",") + 1; ids != to.count {
		return fmt.Errorf("send batch: %d offset ids for %d messages", ids, to.count)
	}

	large := strings.Repeat("compress me ", 1000)
	sent[large] = true
	if _, err := made.SendSync(ctx, primitive.NewMessage(to.topic, []byte(large))); err != nil {
		return fmt.Errorf("send large: %w", err)
	}
	facts["sent"] = len(sent)
	return receiveAll(to, "*", sent, facts)
}

func receiveAll(to target, expression string, sent map[string]bool, facts map[string]any) error {
	box := newInbox(len(sent))
	reader, err := startConsumer(to, expression, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, one := range messages {
			box.put(one.Body)
		}
		return consumer.ConsumeSuccess, nil
	})
	if err != nil {
		return err
	}
	defer reader.Shutdown()
	if err := box.wait(to.timeout); err != nil {
		return err
	}
	facts["received"] = box.count()
	return box.compare(sent)
}

// runTags sends three tags and subscribes to two of them.
func runTags(to target, facts map[string]any) error {
	made, err := startProducer(to)
	if err != nil {
		return err
	}
	defer made.Shutdown()
	wanted := map[string]bool{}
	for number := 0; number < to.count; number++ {
		for _, tag := range []string{"TagA", "TagB", "TagC"} {
			body := fmt.Sprintf("%s %d", tag, number)
			if _, err := made.SendSync(context.Background(), primitive.NewMessage(to.topic, []byte(body)).WithTag(tag)); err != nil {
				return fmt.Errorf("send: %w", err)
			}
			if tag != "TagB" {
				wanted[body] = true
			}
		}
	}
	facts["sent"] = 3 * to.count
	return receiveAll(to, "TagA || TagC", wanted, facts)
}

// runOrdered sends by sharding key and checks that each key's numbers come in the order of sending.
func runOrdered(to target, facts map[string]any) error {
	made, err := startProducer(to, producer.WithQueueSelector(producer.NewHashQueueSelector()))
	if err != nil {
		return err
	}
	defer made.Shutdown()
	keys := []string{"red", "green", "blue", "black", "white"}
	queueOf := map[string]int{}
	for number := 0; number < to.count; number++ {
		for _, key := range keys {
			message := primitive.NewMessage(to.topic, []byte(fmt.Sprintf("%s %d", key, number))).WithShardingKey(key)
			result, err := made.SendSync(context.Background(), message)
			if err != nil {
				return fmt.Errorf("send: %w", err)
			}
			// The first send to a topic that does not exist yet sees the template's queues.
			if before, seen := queueOf[key]; seen && before != result.MessageQueue.QueueId {
				return fmt.Errorf("key %s moved from queue %d to %d", key, before, result.MessageQueue.QueueId)
			}
			queueOf[key] = result.MessageQueue.QueueId
		}
	}
	facts["sent"] = len(keys) * to.count

	var mutex sync.Mutex
	next := map[string]int{}
	disorder := ""
	box := newInbox(len(keys) * to.count)
	reader, err := startConsumer(to, "*", func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, one := range messages {
			var number int
			key := one.GetShardingKey()
			if _, err := fmt.Sscanf(string(one.Body), key+" %d", &number); err != nil {
				number = -1
			}
			mutex.Lock()
			// A message may come again, but none before the one in front of it.
			if (number < 0 || number > next[key]) && disorder == "" {
				disorder = fmt.Sprintf("%q came where %s %d was due", one.Body, key, next[key])
			}
			next[key] = max(next[key], number+1)
			mutex.Unlock()
			box.put(one.Body)
		}
		return consumer.ConsumeSuccess, nil
	}, consumer.WithConsumerOrder(true))
	if err != nil {
		return err
	}
	defer reader.Shutdown()
	if err := box.wait(to.timeout); err != nil {
		return err
	}
	facts["received"] = box.count()
	mutex.Lock()
	defer mutex.Unlock()
	if disorder != "" {
		return fmt.Errorf("order broken: %s", disorder)
	}
	return nil
}

// runRetry refuses each message once and expects it again, with its count of tries raised. A second consumer
// does the second half: the retry topic is born with the first one's heartbeat, and the client asks for the
// routes of its topics at the start and then only every 30 seconds.
func runRetry(to target, facts map[string]any) error {
	made, err := startProducer(to)
	if err != nil {
		return err
	}
	defer made.Shutdown()
	count := min(to.count, 3)
	for number := 0; number < count; number++ {
		body := []byte(fmt.Sprintf("retry %d", number))
		if _, err := made.SendSync(context.Background(), primitive.NewMessage(to.topic, body)); err != nil {
			return fmt.Errorf("send: %w", err)
		}
	}

	refused := newInbox(count)
	refuse := func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		if how, found := primitive.GetConcurrentlyCtx(ctx); found {
			how.DelayLevelWhenNextConsume = 1
		}
		for _, one := range messages {
			refused.put(one.Body)
		}
		return consumer.ConsumeRetryLater, nil
	}
	first, err := startConsumer(to, "*", refuse, consumer.WithInstance("first"))
	if err != nil {
		return err
	}
	if err := refused.wait(to.timeout); err != nil {
		return err
	}
	if err := first.Shutdown(); err != nil {
		return fmt.Errorf("shut the first consumer down: %w", err)
	}

	var wrong atomic.Int32
	again := newInbox(count)
	second, err := startConsumer(to, "*", func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, one := range messages {
			// The first consumer may have gone before it could hand this one back.
			if one.ReconsumeTimes == 0 {
				return refuse(ctx, messages...)
			}
			if one.ReconsumeTimes != 1 || one.Topic != to.topic {
				wrong.Add(1)
			}
			again.put(one.Body)
		}
		return consumer.ConsumeSuccess, nil
	}, consumer.WithInstance("second"))
	if err != nil {
		return err
	}
	defer second.Shutdown()
	if err := again.wait(to.timeout); err != nil {
		return err
	}
	facts["refused"] = refused.count()
	facts["received"] = again.count()
	if wrong.Load() != 0 {
		return fmt.Errorf("%d retried messages with a wrong topic or count of tries", wrong.Load())
	}
	return nil
}

// runPull reads with the pull consumer's own poll loop and acknowledges each run of messages.
func runPull(to target, facts map[string]any) error {
	made, err := startProducer(to)
	if err != nil {
		return err
	}
	defer made.Shutdown()
	sent := map[string]bool{}
	for number := 0; number < to.count; number++ {
		body := fmt.Sprintf("pull %d", number)
		sent[body] = true
		if _, err := made.SendSync(context.Background(), primitive.NewMessage(to.topic, []byte(body))); err != nil {
			return fmt.Errorf("send: %w", err)
		}
	}
	reader, err := startPull(to)
	if err != nil {
		return err
	}
	defer reader.Shutdown()
	box := newInbox(len(sent))
	deadline := time.Now().Add(to.timeout)
	for box.count() < len(sent) && time.Now().Before(deadline) {
		run, err := reader.Poll(context.Background(), time.Second)
		if consumer.IsNoNewMsgError(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("poll: %w", err)
		}
		for _, one := range run.GetMsgList() {
			box.put(one.Body)
		}
		reader.ACK(context.Background(), run, consumer.ConsumeSuccess)
	}
	facts["sent"] = len(sent)
	facts["received"] = box.count()
	return box.compare(sent)
}
