package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"time"

	"github.com/IBM/sarama"

	"kafka-zk/tests/peers/program"
)

func newConfig() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V3_9_0_0
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	config.Consumer.MaxWaitTime = 200 * time.Millisecond
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	return config
}

func newProducer(servers []string, id string) (sarama.SyncProducer, error) {
	config := newConfig()
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Transaction.ID = id
	config.Producer.Transaction.Timeout = 10 * time.Second
	config.Net.MaxOpenRequests = 1
	return sarama.NewSyncProducer(servers, config)
}

func (client) Write(servers []string, topic, id string) {
	producer, err := newProducer(servers, id)
	program.Check(err)
	send := func(partition int32, value string) error {
		_, _, err := producer.SendMessage(
			&sarama.ProducerMessage{Topic: topic, Partition: partition, Value: sarama.StringEncoder(value)},
		)
		return err
	}
	end := func(commit bool) error {
		if commit {
			return producer.CommitTxn()
		}
		return producer.AbortTxn()
	}
	program.WriteAll(producer.BeginTxn, send, end)
	program.Check(producer.Close())
}

func (client) Read(servers []string, topic string) {
	consumer, err := sarama.NewConsumer(servers, newConfig())
	program.Check(err)
	partitions, err := consumer.Partitions(topic)
	program.Check(err)
	values := make(chan string)
	for _, partition := range partitions {
		claim, err := consumer.ConsumePartition(topic, partition, sarama.OffsetOldest)
		program.Check(err)
		go func() {
			for message := range claim.Messages() {
				values <- string(message.Value)
			}
		}()
	}
	program.PrintUntilEnd(values)
}

// transformer has one transactional id for each partition, since sarama commits offsets without its generation: whoever
// has a partition now fences who had it.
type transformer struct {
	servers       []string
	target, group string
}

func (t *transformer) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (t *transformer) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (t *transformer) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	producer, err := newProducer(t.servers, fmt.Sprintf("%s-%s-%d", t.group, claim.Topic(), claim.Partition()))
	if err != nil {
		return err
	}
	defer producer.Close()
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			if err := t.work(producer, some(message, claim)); err != nil {
				return err // the group is joined anew, which begins at the committed offset
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

// some are this message and those that wait behind it, a hundred at most.
func some(first *sarama.ConsumerMessage, claim sarama.ConsumerGroupClaim) []*sarama.ConsumerMessage {
	found := []*sarama.ConsumerMessage{first}
	for len(found) < 100 {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return found
			}
			found = append(found, message)
		default:
			return found
		}
	}
	return found
}

func (t *transformer) work(producer sarama.SyncProducer, messages []*sarama.ConsumerMessage) error {
	if err := producer.BeginTxn(); err != nil {
		return err
	}
	made := make([]*sarama.ProducerMessage, len(messages))
	for place, message := range messages {
		value := sarama.ByteEncoder(bytes.ToUpper(message.Value))
		made[place] = &sarama.ProducerMessage{Topic: t.target, Partition: message.Partition, Value: value}
	}
	if err := producer.SendMessages(made); err != nil {
		return err
	}
	if err := producer.AddMessageToTxn(messages[len(messages)-1], t.group, nil); err != nil {
		return err
	}
	return producer.CommitTxn()
}

func (client) Transform(servers []string, source, target, group, id string) {
	config := newConfig()
	config.ClientID = id
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Session.Timeout = 6 * time.Second
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	consumer, err := sarama.NewConsumerGroup(servers, group, config)
	program.Check(err)
	go func() {
		for err := range consumer.Errors() {
			log.Println("error:", err)
		}
	}()
	for {
		if err := consumer.Consume(context.Background(), []string{source}, &transformer{servers, target, group}); err != nil {
			log.Println("consume:", err)
			time.Sleep(100 * time.Millisecond)
		}
	}
}
