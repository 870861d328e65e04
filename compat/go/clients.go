package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const sendTimeout = 5 * time.Second

func startProducer(to target, options ...producer.Option) (rocketmq.Producer, error) {
	all := append([]producer.Option{
		producer.WithNameServer([]string{to.namesrv}),
		producer.WithGroupName(to.group + "P"),
		producer.WithRetry(2),
		producer.WithSendMsgTimeout(sendTimeout),
	}, options...)
	made, err := rocketmq.NewProducer(all...)
	if err != nil {
		return nil, fmt.Errorf("new producer: %w", err)
	}
	if err := made.Start(); err != nil {
		return nil, fmt.Errorf("start producer: %w", err)
	}
	return made, nil
}

type handler func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error)

func startConsumer(to target, expression string, handle handler, options ...consumer.Option) (rocketmq.PushConsumer, error) {
	all := append([]consumer.Option{
		consumer.WithNameServer([]string{to.namesrv}),
		consumer.WithGroupName(to.group),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	}, options...)
	made, err := rocketmq.NewPushConsumer(all...)
	if err != nil {
		return nil, fmt.Errorf("new consumer: %w", err)
	}
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: expression}
	if err := made.Subscribe(to.topic, selector, handle); err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	if err := made.Start(); err != nil {
		return nil, fmt.Errorf("start consumer: %w", err)
	}
	return made, nil
}

// inbox collects deliveries and says when the wanted number of different bodies has come.
type inbox struct {
	mutex  sync.Mutex
	bodies map[string]int
	wanted int
	full   chan struct{}
}

func newInbox(wanted int) *inbox {
	return &inbox{bodies: map[string]int{}, wanted: wanted, full: make(chan struct{})}
}

func (box *inbox) put(body []byte) {
	box.mutex.Lock()
	defer box.mutex.Unlock()
	box.bodies[string(body)]++
	if len(box.bodies) == box.wanted && box.bodies[string(body)] == 1 {
		close(box.full)
	}
}

func (box *inbox) count() int {
	box.mutex.Lock()
	defer box.mutex.Unlock()
	return len(box.bodies)
}

func (box *inbox) wait(timeout time.Duration) error {
	select {
	case <-box.full:
		return nil
	case <-time.After(timeout):
		box.mutex.Lock()
		defer box.mutex.Unlock()
		return fmt.Errorf("%d of %d messages came within %s", len(box.bodies), box.wanted, timeout)
	}
}

// compare names the bodies that were sent and did not come, or came and were not sent.
func (box *inbox) compare(sent map[string]bool) error {
	box.mutex.Lock()
	defer box.mutex.Unlock()
	for body := range sent {
		if box.bodies[body] == 0 {
			return fmt.Errorf("missing %.60q", body)
		}
	}
	for body := range box.bodies {
		if !sent[body] {
			return fmt.Errorf("never sent %.60q", body)
		}
	}
	return nil
}

func startPull(to target) (rocketmq.PullConsumer, error) {
	made, err := rocketmq.NewPullConsumer(
		consumer.WithNameServer([]string{to.namesrv}),
		consumer.WithGroupName(to.group),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	)
	if err != nil {
		return nil, fmt.Errorf("new pull consumer: %w", err)
	}
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}
	if err := made.Subscribe(to.topic, selector); err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	if err := made.Start(); err != nil {
		return nil, fmt.Errorf("start pull consumer: %w", err)
	}
	return made, nil
}
