// A member of a group by sarama. It writes down what it is assigned and handed (sarama does not tell what it has
// committed); it leaves at the end of its input.
//
//	sarama BOOTSTRAP GROUP TOPIC NAME LOG ASSIGNOR SESSION_TIMEOUT_MS
//
// With fewer arguments it is a client with transactions: see transactions.go.
package main

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/IBM/sarama"
)

type member struct {
	topic string
	file  *os.File
}

func (m *member) write(event string, fields map[string]any) {
	fields["event"], fields["at_ms"] = event, time.Now().UnixMilli()
	line, err := json.Marshal(fields)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := m.file.Write(append(line, '\n')); err != nil {
		log.Fatal(err)
	}
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.write("assigned", map[string]any{
		"member": session.MemberID(), "generation": session.GenerationID(),
		"partitions": append([]int32{}, session.Claims()[m.topic]...),
	})
	return nil
}

func (m *member) Cleanup(session sarama.ConsumerGroupSession) error {
	m.write("revoked", map[string]any{"partitions": append([]int32{}, session.Claims()[m.topic]...)})
	return nil
}

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			m.write("handed", map[string]any{"partition": message.Partition, "offsets": []int64{message.Offset}})
			session.MarkMessage(message, "")
		case <-session.Context().Done():
			return nil
		}
	}
}

func main() {
	if len(os.Args) < 8 {
		transactions(os.Args[1:])
		return
	}
	bootstrap, group, topic, name, path, assignor := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6]
	sessionTimeoutMs, err := strconv.Atoi(os.Args[7])
	if err != nil {
		log.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		log.Fatal(err)
	}
	m := &member{topic, file}
	sarama.Logger = log.New(os.Stderr, "", log.LstdFlags)
	config := sarama.NewConfig()
	config.ClientID = name
	config.Version = sarama.V3_9_0_0
	config.Metadata.RefreshFrequency = 2 * time.Second
	config.Consumer.Return.Errors = true
	config.Consumer.MaxWaitTime = 200 * time.Millisecond
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Interval = 200 * time.Millisecond
	config.Consumer.Group.Session.Timeout = time.Duration(sessionTimeoutMs) * time.Millisecond
	config.Consumer.Group.Heartbeat.Interval = config.Consumer.Group.Session.Timeout / 6
	config.Consumer.Group.Rebalance.Timeout = 20 * time.Second
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange()}
	if assignor == "roundrobin" {
		config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRoundRobin()}
	}
	ctx, leave := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		leave()
	}()
	consumer, err := sarama.NewConsumerGroup([]string{bootstrap}, group, config)
	for ; err != nil && ctx.Err() == nil; consumer, err = sarama.NewConsumerGroup([]string{bootstrap}, group, config) {
		log.Println("connect:", err)
		time.Sleep(100 * time.Millisecond)
	}
	go func() {
		for err := range consumer.Errors() {
			log.Println("error:", err)
		}
	}()
	for ctx.Err() == nil {
		if err := consumer.Consume(ctx, []string{topic}, m); err != nil {
			log.Println("consume:", err)
			time.Sleep(100 * time.Millisecond)
		}
	}
	if err := consumer.Close(); err != nil {
		log.Println("close:", err)
	}
	m.write("left", map[string]any{})
}
