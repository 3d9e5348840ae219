package main

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-zk/tests/peers/program"
)

type sender struct{ client *kgo.Client }

func (franz) NewSender(told program.Conform) (program.Sender, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(told.Servers...), kgo.ClientID(told.Name), kgo.DefaultProduceTopic(told.Name),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(5 * time.Millisecond),
		kgo.RecordDeliveryTimeout(program.TimeoutMs * time.Millisecond), kgo.MetadataMinAge(100 * time.Millisecond),
	}
	if told.Role == "plain" {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	if told.Transactional() {
		options = append(options, kgo.TransactionalID(told.Name))
	}
	client, err := kgo.NewClient(options...)
	return sender{client}, err
}

func (s sender) Send(values []string) []error {
	records := []*kgo.Record{}
	place := map[*kgo.Record]int{}
	for _, value := range values {
		record := &kgo.Record{Value: []byte(value)}
		place[record] = len(records)
		records = append(records, record)
	}
	outcomes := make([]error, len(values))
	for _, result := range s.client.ProduceSync(context.Background(), records...) {
		outcomes[place[result.Record]] = result.Err
	}
	return outcomes
}

func (s sender) Begin() error { return s.client.BeginTransaction() }

func (s sender) SendOffset(int64) error {
	return errors.New("franz-go commits offsets in a transaction only for a member, in a GroupTransactSession")
}

func (s sender) End(commit bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), program.TimeoutMs*time.Millisecond)
	defer cancel()
	return s.client.EndTransaction(ctx, kgo.TransactionEndTry(commit))
}

func (s sender) Close() { s.client.Close() }

func (franz) Conform(ctx context.Context, told program.Conform) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(told.Servers...), kgo.ClientID(told.Name), kgo.ConsumerGroup(told.Name),
		kgo.ConsumeTopics(told.Name), kgo.SessionTimeout(program.SessionTimeoutMs*time.Millisecond),
		kgo.HeartbeatInterval(program.HeartbeatMs*time.Millisecond), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(program.PollMs*time.Millisecond),
		kgo.MetadataMinAge(100*time.Millisecond),
	)
	program.Check(err)
	for ctx.Err() == nil {
		fetches := client.PollRecords(ctx, 100)
		fetches.EachError(func(_ string, _ int32, err error) { log.Println("fetch:", err) })
		records := []program.Record{}
		fetches.EachRecord(func(record *kgo.Record) {
			records = append(records, program.Record{Offset: record.Offset, Value: string(record.Value)})
		})
		program.ReadAndCommit(records, func(next int64) error { return commit(client, told.Name, next) })
		client.AllowRebalance()
	}
	client.CloseAllowingRebalance()
}

// commit also finds the errors of partitions.
func commit(client *kgo.Client, topic string, next int64) error {
	offsets := map[string]map[int32]kgo.EpochOffset{topic: {0: {Epoch: -1, Offset: next}}}
	var outcome error
	client.CommitOffsetsSync(context.Background(), offsets,
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
			if err != nil {
				outcome = err
				return
			}
			for _, topic := range response.Topics {
				for _, partition := range topic.Partitions {
					outcome = errors.Join(outcome, kerr.ErrorForCode(partition.ErrorCode))
				}
			}
		})
	return outcome
}
