package main

import (
	"context"
	"errors"
	"log"
	"os"
	"time"

	"github.com/IBM/sarama"

	"kafka-zk/tests/peers/program"
)

// sarama reports an error of a commit on a channel, shortly after the commit has returned.
const commitErrorWait = 50 * time.Millisecond

func conformConfig(told program.Conform) *sarama.Config {
	sarama.Logger = log.New(os.Stderr, "", log.LstdFlags)
	config := newConfig()
	config.ClientID = told.Name
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Flush.Frequency = 5 * time.Millisecond
	config.Producer.Retry.Max = 20
	if told.Role != "plain" && told.Role != "member" {
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1
	}
	if told.Transactional() {
		config.Producer.Transaction.ID = told.Name
	}
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Session.Timeout = program.SessionTimeoutMs * time.Millisecond
	config.Consumer.Group.Heartbeat.Interval = program.HeartbeatMs * time.Millisecond
	return config
}

type sender struct {
	producer sarama.SyncProducer
	name     string
}

func (client) NewSender(told program.Conform) (program.Sender, error) {
	producer, err := sarama.NewSyncProducer(told.Servers, conformConfig(told))
	return sender{producer, told.Name}, err
}

func (s sender) Send(values []string) []error {
	messages := []*sarama.ProducerMessage{}
	place := map[*sarama.ProducerMessage]int{}
	for _, value := range values {
		message := &sarama.ProducerMessage{Topic: s.name, Value: sarama.StringEncoder(value)}
		place[message] = len(messages)
		messages = append(messages, message)
	}
	outcomes := make([]error, len(values))
	err := s.producer.SendMessages(messages)
	var failed sarama.ProducerErrors
	if errors.As(err, &failed) {
		for _, each := range failed {
			outcomes[place[each.Msg]] = each.Err
		}
	}
	return outcomes
}

func (s sender) Begin() error { return s.producer.BeginTxn() }

func (s sender) SendOffset(next int64) error {
	offset := &sarama.PartitionOffsetMetadata{Partition: 0, Offset: next}
	return s.producer.AddOffsetsToTxn(map[string][]*sarama.PartitionOffsetMetadata{s.name: {offset}}, s.name)
}

func (s sender) End(commit bool) error {
	if commit {
		return s.producer.CommitTxn()
	}
	return s.producer.AbortTxn()
}

func (s sender) Close() { program.Check(s.producer.Close()) }

type conforming struct {
	name   string
	errors <-chan error
}

func (c conforming) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (c conforming) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (c conforming) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			record := program.Record{Offset: message.Offset, Value: string(message.Value)}
			program.ReadAndCommit([]program.Record{record}, func(next int64) error { return c.commit(session, next) })
		case err := <-c.errors:
			log.Println("error:", err)
		case <-session.Context().Done():
			return nil
		}
	}
}

func (c conforming) commit(session sarama.ConsumerGroupSession, next int64) error {
	c.drain() // an error of a fetch is none of this commit
	session.MarkOffset(c.name, 0, next, "")
	session.Commit()
	select {
	case err := <-c.errors:
		return err
	case <-time.After(commitErrorWait):
		return nil
	}
}

func (c conforming) drain() {
	for {
		select {
		case err := <-c.errors:
			log.Println("error:", err)
		default:
			return
		}
	}
}

func (client) Conform(ctx context.Context, told program.Conform) {
	consumer, err := sarama.NewConsumerGroup(told.Servers, told.Name, conformConfig(told))
	program.Check(err)
	for ctx.Err() == nil {
		if err := consumer.Consume(ctx, []string{told.Name}, conforming{told.Name, consumer.Errors()}); err != nil {
			log.Println("consume:", err)
			time.Sleep(100 * time.Millisecond)
		}
	}
	if err := consumer.Close(); err != nil {
		log.Println("close:", err)
	}
}
