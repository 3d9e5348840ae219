// The programs of package program by sarama. A member writes down what it is assigned and handed (sarama does not tell
// what it has committed).
package main

import (
	"context"
	"log"
	"os"
	"time"

	"github.com/IBM/sarama"

	"kafka-zk/tests/peers/program"
)

type client struct{}

func main() {
	program.Main(client{})
}

type member struct{ *program.Member }

func (m member) Setup(session sarama.ConsumerGroupSession) error {
	m.Tell("assigned", map[string]any{
		"member": session.MemberID(), "generation": session.GenerationID(),
		"partitions": program.List(session.Claims()[m.Topic]),
	})
	return nil
}

func (m member) Cleanup(session sarama.ConsumerGroupSession) error {
	m.Tell("revoked", map[string]any{"partitions": program.List(session.Claims()[m.Topic])})
	return nil
}

func (m member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			m.Tell("handed", map[string]any{"partition": message.Partition, "offsets": []int64{message.Offset}})
			session.MarkMessage(message, "")
		case <-session.Context().Done():
			return nil
		}
	}
}

func (client) Join(ctx context.Context, told *program.Member) {
	sarama.Logger = log.New(os.Stderr, "", log.LstdFlags)
	config := sarama.NewConfig()
	config.ClientID = told.Name
	config.Version = sarama.V3_9_0_0
	config.Metadata.RefreshFrequency = 2 * time.Second
	config.Consumer.Return.Errors = true
	config.Consumer.MaxWaitTime = 200 * time.Millisecond
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Interval = 200 * time.Millisecond
	config.Consumer.Group.Session.Timeout = told.SessionTimeout
	config.Consumer.Group.Heartbeat.Interval = told.SessionTimeout / 6
	config.Consumer.Group.Rebalance.Timeout = 20 * time.Second
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange()}
	if told.RoundRobin {
		config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRoundRobin()}
	}
	servers := []string{told.Bootstrap}
	consumer, err := sarama.NewConsumerGroup(servers, told.Group, config)
	for ; err != nil && ctx.Err() == nil; consumer, err = sarama.NewConsumerGroup(servers, told.Group, config) {
		log.Println("connect:", err)
		time.Sleep(100 * time.Millisecond)
	}
	go func() {
		for err := range consumer.Errors() {
			log.Println("error:", err)
		}
	}()
	for ctx.Err() == nil {
		if err := consumer.Consume(ctx, []string{told.Topic}, member{told}); err != nil {
			log.Println("consume:", err)
			time.Sleep(100 * time.Millisecond)
		}
	}
	if err := consumer.Close(); err != nil {
		log.Println("close:", err)
	}
}
