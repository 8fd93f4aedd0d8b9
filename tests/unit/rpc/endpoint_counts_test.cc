#include "rpc/endpoint_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rpc/polled_endpoint.h"

namespace ramcore::rpc {
namespace {

// Sends nothing, and reports a different number for each count.
class CountedEndpoint final : public transport::Endpoint {
 public:
  const transport::Limits& limits() const override { return limits_; }
  Outcome<transport::Locator> listen(const transport::Locator& where) override { return where; }
  transport::SessionId connect(const transport::Locator&, uint64_t, int64_t) override { return {}; }
  transport::TxMessage allocate(uint32_t) override { return {}; }
  Status call(transport::SessionId, transport::TxMessage&, const transport::CallOptions&,
              transport::PendingCall&) override {
    return Status::SessionLost;
  }
  void abandon(transport::SessionId, transport::PendingCall&) override {}
  void reply(const transport::ReplyTo&, transport::TxMessage) override {}
  uint32_t poll(transport::MessageSink&, uint32_t) override { return 0; }
  void flush() override {}
  bool prepareSleep() override { return true; }
  void awake() override {}
  const transport::Peer* peer(transport::SessionId) const override { return nullptr; }
  void close(transport::SessionId) override {}
  uint32_t sessionCount() const override { return 1; }
  uint64_t badSessionCount() const override { return 2; }
  transport::BorrowedCounts borrowedCounts() const override {
    return {.messages_copied_out = 3, .sessions_dropped = 4};
  }
  transport::SendCounts sendCounts() const override {
    return {.messages = 91,
            .payload_bytes = 5,
            .gathered_bytes = 6,
            .chunks_gathered = 7,
            .chunks_copied = 92,
            .long_chunks_copied = 8,
            .posts = 93};
  }
  transport::PacketCounts packetCounts() const override {
    return {.sent = 9,
            .resent = 10,
            .received = 94,
            .copies = 11,
            .unproven = 12,
            .nonsense = 95,
            .dropped = 96,
            .unknown_peers = 97};
  }
  uint64_t registeredBytes() const override { return uint64_t{13} << 40; }

 private:
  transport::Limits limits_{.name = "counted", .burst_messages_max = 1};
};

std::string lineOf(const NumberMeaning& meaning) {
  return std::string(meaning.kind == NumberKind::Gauge ? "gauge " : "counter ") + std::string(meaning.metric) + ": " +
         std::string(meaning.help);
}

// The names that monitoring asks for: a name that is changed here is missing in the queries of users.
TEST(EndpointCounts, MetricsHaveTheseNamesAndTexts) {
  std::vector<std::string> lines;
  for (const Number<EndpointCounts>& number : kEndpointNumbers) lines.push_back(lineOf(number.meaning));
  EXPECT_THAT(
      lines,
      testing::ElementsAre(
          "gauge ramcore_sessions: Open sessions",
          "counter ramcore_bad_sessions_total: Sessions closed because of bytes that no honest peer sends, or that "
          "ended in the middle",
          "counter ramcore_pins_overdue_total: Answers that a peer did not take in time, and that were copied so that "
          "they hold no memory of the log",
          "counter ramcore_pin_sessions_dropped_total: Sessions closed because they left more unread than is copied",
          "counter ramcore_sent_payload_bytes_total: Bytes of messages given to hardware to send; 0 where the system "
          "sends",
          "counter ramcore_sent_gathered_bytes_total: Part of these: read by the hardware from where they are stored, "
          "and not copied",
          "counter ramcore_sent_chunks_total: Pieces of messages that the hardware has read from where they are stored",
          "counter ramcore_sent_long_chunks_copied_total: Pieces of messages that were copied although they are long "
          "enough to be read from where they are stored",
          "counter ramcore_packets_sent_total: Packets of transports that send lost ones again, copies included",
          "counter ramcore_packets_resent_total: Packets that were sent again because nothing had said that they had "
          "arrived",
          "counter ramcore_packets_copied_total: Packets that arrived although what is in them had arrived already",
          "counter ramcore_packets_unproven_total: Packets whose seal or checksum was wrong: changed on the way, or "
          "forged",
          "gauge ramcore_registered_bytes: Memory registered with hardware for messages of all sessions"));
}

TEST(EndpointCounts, EachCountIsPublished) {
  CountedEndpoint endpoint;
  PolledEndpoint polled(endpoint, 1);
  for (const Number<EndpointCounts>& number : kEndpointNumbers) EXPECT_EQ(number.read(polled.counts()), 0);
  polled.publishCounts();
  std::vector<double> values;
  for (const Number<EndpointCounts>& number : kEndpointNumbers) values.push_back(number.read(polled.counts()));
  EXPECT_THAT(values, testing::ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13 * 1099511627776.0));
}

}  // namespace
}  // namespace ramcore::rpc
