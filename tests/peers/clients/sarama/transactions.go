package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

// transactions does what the first argument says:
//
//	sarama write BOOTSTRAP TOPIC TRANSACTIONAL_ID   commits c0, c2 ... c8 and aborts a1, a3 ... a9, in two partitions
//	sarama read BOOTSTRAP TOPIC COUNT               prints so many committed values, and what comes within a second
//	sarama transform BOOTSTRAP SOURCE TARGET GROUP TRANSACTIONAL_ID   in upper case, exactly once, until it is killed
func transactions(arguments []string) {
	servers := strings.Split(arguments[1], ",")
	switch arguments[0] {
	case "write":
		write(servers, arguments[2], arguments[3])
	case "read":
		count, err := strconv.Atoi(arguments[3])
		check(err)
		read(servers, arguments[2], count)
	case "transform":
		transform(servers, arguments[2], arguments[3], arguments[4], arguments[5])
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

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

func write(servers []string, topic, id string) {
	producer, err := newProducer(servers, id)
	check(err)
	for number := range 10 {
		check(producer.BeginTxn())
		kind, end := "c", producer.CommitTxn
		if number%2 == 1 {
			kind, end = "a", producer.AbortTxn
		}
		for partition := range int32(2) {
			value := sarama.StringEncoder(fmt.Sprintf("%s%d", kind, number))
			_, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Partition: partition, Value: value})
			check(err)
		}
		check(end())
	}
	check(producer.Close())
}

func read(servers []string, topic string, count int) {
	consumer, err := sarama.NewConsumer(servers, newConfig())
	check(err)
	partitions, err := consumer.Partitions(topic)
	check(err)
	messages := make(chan *sarama.ConsumerMessage)
	for _, partition := range partitions {
		claim, err := consumer.ConsumePartition(topic, partition, sarama.OffsetOldest)
		check(err)
		go func() {
			for message := range claim.Messages() {
				messages <- message
			}
		}()
	}
	for found, wait := 0, 30*time.Second; ; found++ {
		if found >= count {
			wait = time.Second
		}
		select {
		case message := <-messages:
			fmt.Println(string(message.Value))
		case <-time.After(wait):
			return
		}
	}
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

func transform(servers []string, source, target, group, id string) {
	config := newConfig()
	config.ClientID = id
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Session.Timeout = 6 * time.Second
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	consumer, err := sarama.NewConsumerGroup(servers, group, config)
	check(err)
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
