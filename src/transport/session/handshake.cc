#include "transport/session/handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>

#include "base/id_text.h"
#include "base/mutation.h"
#include "wire/frame.h"

namespace ramcore::transport {
namespace {

using wire::HandshakeKind;
using wire::HandshakeRefusal;

constexpr std::string_view kInitiatorProves = "ramcore handshake 1: initiator";
constexpr std::string_view kAcceptorProves = "ramcore handshake 1: acceptor";
constexpr std::string_view kSessionKey = "ramcore handshake 1: session key";

wire::HandshakeHeader headerOf(HandshakeKind kind, size_t message_bytes) {
  wire::HandshakeHeader header{};
  header.magic = wire::kHandshakeMagic;
  header.message_bytes = static_cast<uint32_t>(message_bytes);
  header.version = wire::kProtocolVersion;
  header.kind = kind;
  return header;
}

bool isZero(ByteSpan bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

bool isRole(uint8_t role) {
  return role >= static_cast<uint8_t>(Role::Client) && role <= static_cast<uint8_t>(Role::Admin);
}

// Text that may be printed and put into traces.
bool isPrintable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

std::string quoted(std::string_view text) {
  return isPrintable(text) ? "'" + std::string(text) + "'" : "(unprintable)";
}

std::string versionText(uint16_t peer_version) {
  return "the peer speaks protocol version " + std::to_string(peer_version) + ", this process " +
         std::to_string(wire::kProtocolVersion) + "; run the same release on both sides";
}

// The failure text of the side that is refused.
std::string refusalText(HandshakeRefusal reason, uint16_t peer_version) {
  switch (reason) {
    case HandshakeRefusal::Version:
      return versionText(peer_version);
    case HandshakeRefusal::ClusterName:
      return "the peer belongs to a cluster of another name; give both the same one";
    case HandshakeRefusal::Secret:
      return "wrong cluster secret: the peer has another one; give both the same file";
    case HandshakeRefusal::WrongServerId:
      return "the peer looked for another server id";
    case HandshakeRefusal::NotLocal:
      return "the peer runs without a cluster secret and talks to its own machine only; give both a secret file";
    case HandshakeRefusal::Malformed:
      return "the peer could not read our handshake; run the same release on both sides";
    case HandshakeRefusal::ClusterId:
      return "the peer belongs to another cluster of the same name; correct the address, or give each cluster its own "
             "name";
    case HandshakeRefusal::Busy:
      return "the peer takes no more connections for now; if that lasts, raise its --sessions-max, or its limit of "
             "open "
             "files";
    case HandshakeRefusal::None:
      break;
  }
  return "the peer refused for reason " + std::to_string(static_cast<unsigned>(reason));
}

}  // namespace

wire::HandshakeRefused busyRefusal() {
  wire::HandshakeRefused refused{};
  refused.header = headerOf(HandshakeKind::Refusal, sizeof(refused));
  refused.reason = HandshakeRefusal::Busy;
  return refused;
}

Handshake::Handshake(HandshakeOptions options, runtime::Entropy& entropy)
    : options_(std::move(options)), entropy_(entropy) {
  RC_CHECK(options_.slot_count >= 1 && options_.slot_count <= wire::kSlotCountMax);
  RC_CHECK(options_.identity.cluster_name.size() <= wire::kClusterNameBytesMax);
  awaited_ = isInitiator() ? HandshakeKind::Challenge : HandshakeKind::Hello;
  if (options_.identity.secret.empty() && !options_.peer_is_local) {
    fail(HandshakeRefusal::NotLocal, Status::Refused,
         "without a cluster secret only processes of the same machine are let in; give both sides a secret file");
    return;
  }
  if (isInitiator()) sendIntroduction(HandshakeKind::Hello);
}

// ---- bytes

uint32_t Handshake::wantedBytes() const {
  if (state_ != State::Running) return 0;
  if (in_.size() < sizeof(wire::HandshakeHeader)) {
    return static_cast<uint32_t>(sizeof(wire::HandshakeHeader) - in_.size());
  }
  return static_cast<uint32_t>(loadAs<wire::HandshakeHeader>(in_.data()).message_bytes - in_.size());
}

void Handshake::receive(ByteSpan bytes) {
  while (!bytes.empty() && state_ == State::Running) {
    const ByteSpan piece = bytes.first(std::min<size_t>(bytes.size(), wantedBytes()));
    bytes = bytes.subspan(piece.size());
    in_.insert(in_.end(), piece.begin(), piece.end());
    if (in_.size() == sizeof(wire::HandshakeHeader)) {
      // wantedBytes() relies on the length from here on.
      wire::HandshakeHeader header;
      if (!wire::decode(in_, header)) {
        return failBad(isInitiator() ? "its first bytes are no handshake; check that a Ramcore process listens there"
                                     : "its first bytes are no handshake");
      }
      if (header.message_bytes <= sizeof(header) || header.message_bytes > wire::kHandshakeMessageBytesMax ||
          !isAligned(header.message_bytes, 8)) {
        return failBad("a length that makes no sense");
      }
    } else if (wantedBytes() == 0) {
      onMessage();
      in_.clear();
    }
  }
}

void Handshake::send(ByteSpan message) {
  RC_CHECK(isAligned(message.size(), 8) && message.size() <= wire::kHandshakeMessageBytesMax);
  out_.erase(out_.begin(), out_.begin() + static_cast<ptrdiff_t>(sent_bytes_));
  sent_bytes_ = 0;
  out_.insert(out_.end(), message.begin(), message.end());
}

void Handshake::sent(size_t bytes) {
  RC_CHECK(bytes <= out_.size() - sent_bytes_);
  sent_bytes_ += bytes;
}

// ---- the end

void Handshake::fail(HandshakeRefusal reason, Status status, std::string text) {
  // An initiator that has sent its proof says nothing more: the acceptor may have accepted, and would read a refusal as
  // a frame.
  if (awaited_ != HandshakeKind::Accept) {
    wire::HandshakeRefused refused{};
    refused.header = headerOf(HandshakeKind::Refusal, sizeof(refused));
    refused.reason = reason;
    send(bytesOf(refused));
  }
  state_ = State::Failed;
  status_ = status;
  failure_text_ = std::move(text);
}

void Handshake::failBad(std::string_view what) {
  is_bad_ = true;
  fail(HandshakeRefusal::Malformed, Status::Refused, "bad handshake: " + std::string(what));
}

// A recorded handshake of another process that is played again ends here, too.
void Handshake::failSecret() {
  is_bad_ = true;
  fail(HandshakeRefusal::Secret, Status::Refused, "the peer has a wrong cluster secret");
}

bool Handshake::isOfAnotherCluster() const {
  if (RC_MUTATION("talk-to-another-cluster")) return false;
  const uint64_t own = options_.identity.cluster;
  return own != 0 && peer_.cluster != 0 && peer_.cluster != own;
}

void Handshake::failCluster() {
  std::string text =
      "the peer is of cluster " + hexText(peer_.cluster) + ", this process of " + hexText(options_.identity.cluster);
  if (peer_.role == Role::Coordinator) text += "; that coordinator was probably started on another --storage";
  fail(HandshakeRefusal::ClusterId, Status::WrongCluster, std::move(text));
}

void Handshake::finish() {
  session_key_ = mac(kSessionKey);
  state_ = State::Done;
}

// ---- proofs

Handshake::Key Handshake::mac(std::string_view purpose, ByteSpan more) const {
  std::vector<std::byte> text(asBytes(purpose).begin(), asBytes(purpose).end());
  text.insert(text.end(), transcript_.begin(), transcript_.end());
  text.insert(text.end(), more.begin(), more.end());
  Key key{};
  unsigned int key_bytes = 0;
  const std::string& secret = options_.identity.secret;
  const auto* result = HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
                            reinterpret_cast<const unsigned char*>(text.data()), text.size(), key.data(), &key_bytes);
  RC_CHECK_MSG(result != nullptr && key_bytes == key.size(), "the crypto library cannot compute HMAC-SHA256");
  return key;
}

bool Handshake::checkMac(const Key& expected, const Key& got) const {
  if (RC_MUTATION("believe-without-proof")) return true;
  return CRYPTO_memcmp(expected.data(), got.data(), expected.size()) == 0;
}

// ---- messages out

void Handshake::sendIntroduction(HandshakeKind kind) {
  const Identity& own = options_.identity;
  std::vector<std::byte> message(alignUp(sizeof(wire::HandshakeIntroduction) + own.cluster_name.size(), 8));
  wire::HandshakeIntroduction introduction{};
  introduction.header = headerOf(kind, message.size());
  entropy_.fill(std::as_writable_bytes(std::span(introduction.nonce)));
  introduction.id = own.id;
  introduction.cluster = own.cluster;
  introduction.slot_count = options_.slot_count;
  introduction.cluster_name_bytes = static_cast<uint16_t>(own.cluster_name.size());
  introduction.role = static_cast<uint8_t>(own.role);
  storeAs(message.data(), introduction);
  std::ranges::copy(asBytes(own.cluster_name), message.begin() + sizeof(introduction));
  say(message);
  send(message);
}

void Handshake::sendProof() {
  wire::HandshakeProof proof{};
  proof.header = headerOf(HandshakeKind::Proof, sizeof(proof));
  proof.mac = mac(kInitiatorProves);
  send(bytesOf(proof));
}

void Handshake::sendAccept() {
  std::vector<std::byte> list;
  uint16_t count = 0;
  const std::vector<Locator>& advertised = options_.identity.advertised;
  for (const Locator& locator : advertised.empty() ? options_.locators : advertised) {
    const std::string text = locator.toString();
    if (text.size() > wire::kHandshakeLocatorBytesMax || count == wire::kHandshakeLocatorsMax) continue;
    const auto text_bytes = static_cast<uint16_t>(text.size());
    list.insert(list.end(), bytesOf(text_bytes).begin(), bytesOf(text_bytes).end());
    list.insert(list.end(), asBytes(text).begin(), asBytes(text).end());
    ++count;
  }
  std::vector<std::byte> message(alignUp(sizeof(wire::HandshakeAccept) + list.size(), 8));
  wire::HandshakeAccept accept{};
  accept.header = headerOf(HandshakeKind::Accept, message.size());
  accept.locator_count = count;
  accept.locators_bytes = static_cast<uint16_t>(list.size());
  accept.mac = mac(kAcceptorProves, list);
  storeAs(message.data(), accept);
  std::ranges::copy(list, message.begin() + sizeof(accept));
  send(message);
}

// ---- messages in

void Handshake::onMessage() {
  const auto header = loadAs<wire::HandshakeHeader>(in_.data());
  if (header.kind == HandshakeKind::Refusal) return onRefusal();
  if (header.version != wire::kProtocolVersion) {
    return fail(HandshakeRefusal::Version, Status::Refused, versionText(header.version));
  }
  // A connection to a local port where nobody listens may get that very port for its own end, and is connected to
  // itself.
  if (header.kind == HandshakeKind::Hello && isInitiator()) {
    return fail(HandshakeRefusal::Malformed, Status::Unreachable, "nobody listens there, our own greeting came back");
  }
  if (header.kind != awaited_) return failBad("a message out of turn");
  switch (header.kind) {
    case HandshakeKind::Hello:
    case HandshakeKind::Challenge:
      return onIntroduction(header.kind);
    case HandshakeKind::Proof:
      return onProof();
    case HandshakeKind::Accept:
      return onAccept();
    case HandshakeKind::Refusal:
      break;
  }
}

void Handshake::onIntroduction(HandshakeKind kind) {
  if (in_.size() < sizeof(wire::HandshakeIntroduction)) return failBad("an introduction that is too short");
  wire::HandshakeIntroduction theirs;
  const bool is_valid = wire::decode(in_, theirs);
  const ByteSpan rest = ByteSpan(in_).subspan(sizeof(theirs));
  const uint32_t name_bytes = theirs.cluster_name_bytes;
  if (!is_valid || alignUp(name_bytes, 8) != rest.size() || !isZero(rest.subspan(name_bytes)) || !isRole(theirs.role)) {
    return failBad("an introduction that makes no sense");
  }
  const std::string_view name = asText(rest.first(name_bytes));
  if (name != options_.identity.cluster_name) {
    return fail(
        HandshakeRefusal::ClusterName, Status::Refused,
        "the peer belongs to cluster " + quoted(name) + ", this process to " + quoted(options_.identity.cluster_name));
  }
  peer_.role = static_cast<Role>(theirs.role);
  peer_.id = theirs.id;
  peer_.cluster = theirs.cluster;
  slot_count_ = std::min(theirs.slot_count, options_.slot_count);
  say(in_);
  if (kind == HandshakeKind::Hello) {
    sendIntroduction(HandshakeKind::Challenge);
    awaited_ = HandshakeKind::Proof;
    return;
  }
  if (isOfAnotherCluster()) return failCluster();
  // The peer's id is not proven yet, but an attacker gains nothing by a false one: if it can answer here, it can also
  // break the connection.
  if (options_.expected_id != 0 && peer_.id != options_.expected_id) {
    was_for_another_ = true;
    // This server listens already, but the coordinator has not given it an id yet.
    if (peer_.id == 0 && peer_.role == Role::Server) {
      return fail(HandshakeRefusal::WrongServerId, Status::RetryLater,
                  "the server here has no id yet, and may become " + std::to_string(options_.expected_id));
    }
    return fail(HandshakeRefusal::WrongServerId, Status::WrongServerId,
                "server " + std::to_string(peer_.id) + " listens here, not " + std::to_string(options_.expected_id));
  }
  sendProof();
  awaited_ = HandshakeKind::Accept;
}

void Handshake::onProof() {
  wire::HandshakeProof proof;
  // Only the length can be wrong: receive() has checked the header.
  if (in_.size() != sizeof(proof) || !wire::decode(in_, proof)) return failBad("a proof of the wrong length");
  if (!checkMac(mac(kInitiatorProves), proof.mac)) {
    return failSecret();
  }
  // An honest initiator of another cluster does not get here: it compares the ids of the clusters when the challenge
  // comes.
  if (isOfAnotherCluster()) return failCluster();
  if (peer_.role == Role::Client && options_.has_room_for_client && !options_.has_room_for_client()) {
    return fail(HandshakeRefusal::Busy, Status::Unreachable,
                "there are as many clients as this process takes: an eighth of its sessions is for servers; raise its "
                "--sessions-max");
  }
  sendAccept();
  finish();
}

void Handshake::onAccept() {
  if (in_.size() < sizeof(wire::HandshakeAccept)) return failBad("an acceptance that is too short");
  wire::HandshakeAccept accept;
  const bool is_valid = wire::decode(in_, accept);
  const ByteSpan rest = ByteSpan(in_).subspan(sizeof(accept));
  if (!is_valid || alignUp(accept.locators_bytes, 8) != rest.size() || !isZero(rest.subspan(accept.locators_bytes))) {
    return failBad("an acceptance that makes no sense");
  }
  const ByteSpan list = rest.first(accept.locators_bytes);
  if (!checkMac(mac(kAcceptorProves, list), accept.mac)) {
    return failSecret();
  }
  if (!readLocators(list, accept.locator_count)) return failBad("a list of locators that makes no sense");
  finish();
}

bool Handshake::readLocators(ByteSpan list, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    if (list.size() < sizeof(uint16_t)) return false;
    const auto text_bytes = loadAs<uint16_t>(list.data());
    list = list.subspan(sizeof(uint16_t));
    if (text_bytes > list.size() || text_bytes > wire::kHandshakeLocatorBytesMax) return false;
    const std::string_view text = asText(list.first(text_bytes));
    list = list.subspan(text_bytes);
    if (!isPrintable(text)) return false;
    // A locator that cannot be parsed is skipped: a later release may have further schemes.
    if (auto locator = Locator::parse(text); locator.ok()) peer_.locators.push_back(std::move(locator).value());
  }
  return list.empty();
}

void Handshake::onRefusal() {
  wire::HandshakeRefused refused;
  // As in onProof(), only the length can be wrong.
  if (!wire::decode(in_, refused)) return failBad("a refusal that is too short");
  state_ = State::Failed;
  was_for_another_ = refused.reason == HandshakeRefusal::WrongServerId;
  status_ = Status::Refused;
  // Busy passes; the other refusals last.
  if (refused.reason == HandshakeRefusal::Busy) status_ = Status::Unreachable;
  if (refused.reason == HandshakeRefusal::ClusterId) status_ = Status::WrongCluster;
  failure_text_ = refusalText(refused.reason, refused.header.version);
}

}  // namespace ramcore::transport
