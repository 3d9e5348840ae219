package main

import (
	"bytes"
	"context"
	"log"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-zk/tests/peers/program"
)

func (franz) Write(servers []string, topic, id string) {
	ctx := context.Background()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(servers...), kgo.TransactionalID(id), kgo.DefaultProduceTopic(topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	program.Check(err)
	defer client.Close()
	send := func(partition int32, value string) error {
		return client.ProduceSync(ctx, &kgo.Record{Value: []byte(value), Partition: partition}).FirstErr()
	}
	end := func(commit bool) error { return client.EndTransaction(ctx, kgo.TransactionEndTry(commit)) }
	program.WriteAll(client.BeginTransaction, send, end)
}

func (franz) Read(servers []string, topic string) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(servers...), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	program.Check(err)
	values := make(chan string)
	go func() {
		for {
			fetches := client.PollFetches(context.Background())
			fetches.EachError(func(_ string, _ int32, err error) { log.Println("fetch:", err) })
			fetches.EachRecord(func(record *kgo.Record) { values <- string(record.Value) })
		}
	}()
	program.PrintUntilEnd(values)
}

func (franz) Transform(servers []string, source, target, group, id string) {
	ctx := context.Background()
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(servers...), kgo.TransactionalID(id), kgo.TransactionTimeout(10*time.Second), kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(source), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(6*time.Second),
		kgo.HeartbeatInterval(500*time.Millisecond), kgo.DefaultProduceTopic(target),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.FetchMaxWait(200*time.Millisecond),
	)
	program.Check(err)
	for {
		fetches := session.PollRecords(ctx, 100)
		fetches.EachError(func(_ string, _ int32, err error) { log.Println("fetch:", err) })
		if fetches.NumRecords() == 0 {
			continue
		}
		program.Check(session.Begin())
		sent := kgo.AbortingFirstErrPromise(session.Client())
		fetches.EachRecord(func(record *kgo.Record) {
			made := &kgo.Record{Value: bytes.ToUpper(record.Value), Partition: record.Partition}
			session.Produce(ctx, made, sent.Promise())
		})
		_, err := session.End(ctx, sent.Err() == nil)
		program.Check(err)
	}
}
