// The programs of package program by franz-go. A member writes down what it is assigned, handed and has committed.
package main

import (
	"context"
	"log"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-zk/tests/peers/program"
)

type franz struct{}

func main() {
	program.Main(franz{})
}

func (franz) Join(ctx context.Context, member *program.Member) {
	balancer := kgo.RangeBalancer()
	if member.RoundRobin {
		balancer = kgo.RoundRobinBalancer()
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(member.Bootstrap),
		kgo.ClientID(member.Name),
		kgo.ConsumerGroup(member.Group),
		kgo.ConsumeTopics(member.Topic),
		kgo.Balancers(balancer),
		kgo.SessionTimeout(member.SessionTimeout),
		kgo.HeartbeatInterval(member.SessionTimeout/6),
		kgo.RebalanceTimeout(20*time.Second),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(200*time.Millisecond),
		kgo.MetadataMaxAge(2*time.Second),
		kgo.MetadataMinAge(time.Second),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(_ context.Context, client *kgo.Client, assigned map[string][]int32) {
			id, generation := client.GroupMetadata()
			partitions := program.List(assigned[member.Topic])
			member.Tell("assigned", map[string]any{"member": id, "generation": generation, "partitions": partitions})
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, revoked map[string][]int32) {
			member.Tell("revoked", map[string]any{"partitions": program.List(revoked[member.Topic])})
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
			member.Tell("lost", map[string]any{"partitions": program.List(lost[member.Topic])})
		}),
	)
	program.Check(err)
	for ctx.Err() == nil {
		fetches := client.PollRecords(ctx, 200)
		fetches.EachError(func(_ string, _ int32, err error) { log.Println("fetch:", err) })
		fetches.EachPartition(func(fetched kgo.FetchTopicPartition) {
			offsets := []int64{}
			for _, record := range fetched.Records {
				offsets = append(offsets, record.Offset)
			}
			if len(offsets) > 0 {
				member.Tell("handed", map[string]any{"partition": fetched.Partition, "offsets": offsets})
			}
		})
		if uncommitted := client.UncommittedOffsets(); len(uncommitted) > 0 {
			client.CommitOffsetsSync(ctx, uncommitted, committedTo(member))
		}
		client.AllowRebalance()
	}
	client.CloseAllowingRebalance()
}

// committedTo writes down the offsets that the coordinator took.
func committedTo(member *program.Member) func(*kgo.Client, *kmsg.OffsetCommitRequest, *kmsg.OffsetCommitResponse, error) {
	return func(_ *kgo.Client, request *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
		if err != nil {
			log.Println("commit:", err)
			return
		}
		asked := map[int32]int64{}
		for _, topic := range request.Topics {
			for _, partition := range topic.Partitions {
				asked[partition.Partition] = partition.Offset
			}
		}
		offsets := map[string]int64{}
		for _, topic := range response.Topics {
			for _, partition := range topic.Partitions {
				if partition.ErrorCode == 0 {
					offsets[strconv.Itoa(int(partition.Partition))] = asked[partition.Partition]
				} else {
					log.Println("commit: error code", partition.ErrorCode)
				}
			}
		}
		if len(offsets) > 0 {
			member.Tell("committed", map[string]any{"offsets": offsets})
		}
	}
}
