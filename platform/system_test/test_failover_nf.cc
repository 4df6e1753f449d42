// SPDX-License-Identifier: Apache-2.0
#include "platform/system_test/test_failover_nf.h"

#include <cstring>

#include "base/packet/endpoint.h"
#include "base/packet/ip_address.h"

namespace snf {

FailoverNf::FailoverNf(uint32_t pieces) : pieces_(pieces) {
  if (pieces > 0) pool_ = declare_pool("pieces", 0, pieces - 1);
}

uint64_t FailoverNf::Extended(uint64_t digest, uint64_t next) {
  const uint64_t hash = (digest ^ next) * 0x9e37'79b9'7f4a'7c15;
  return hash ^ hash >> 29;
}

FlowKey FailoverNf::AliasOf(uint32_t number) {
  return EndpointKey(IpAddress::FromIpv4(be32(0xc633'6401)),
                     be16(static_cast<uint16_t>(number)), IpProtocol::kUdp,
                     FlowKeyForm::kIpv4Endpoint);
}

Verdict FailoverNf::process_packet(Packet& packet, FlowState& flow) {
  FailoverPacket asked;
  std::memcpy(&asked, packet.bytes().data(), sizeof asked);
  const bool takes = (asked.asks & (kAskPiece | kAskSwap)) != 0;
  const bool swaps = (asked.asks & kAskSwap) != 0 && flow.has(piece_);
  if (pieces_ > 0 && takes && (swaps || !flow.has(piece_))) {
    const uint32_t before = flow.get(piece_);
    // It does without if there is none.
    if (!TakePiece(flow) && !flow.is_exhausted(pool_)) {
      return Verdict::wait(pool_);
    }
    if (swaps && flow.get(piece_) != before) flow.give_back(pool_, before);
  }
  uint32_t alias = 0;
  if (takes && flow.has(piece_)) alias = flow.get(piece_) + 1;
  // One that may be refused takes the place of no other: that would stand.
  const bool has_none = !flow.has(piece_) && !flow.has(alias_);
  if ((asked.asks & kAskCommon) != 0 && has_none) alias = kCommon;
  if (alias != 0 && flow.get(alias_) != alias) {
    flow.put(alias_, alias);
    flow.set_alias(AliasOf(alias));
  }
  if ((asked.asks & kAskTimer) != 0) {
    flow.put(armed_, uint8_t{1});
    flow.set_timer(Nanos{0});
  }
  if ((asked.asks & kAskEnd) != 0) {
    // Its alias goes, and it goes on if packets are on their way.
    flow.erase(alias_);
    flow.end();
  }
  Count(0, asked.number);
  Note(flow, asked.number);
  return Verdict::forward();
}

// Returns false if it has no other piece than before.
bool FailoverNf::TakePiece(FlowState& flow) {
  const auto piece = flow.take(pool_, {.first = 0, .last = pieces_ - 1});
  if (piece.has_value()) flow.put(piece_, *piece);
  return piece.has_value();
}

void FailoverNf::on_timer(FlowState& flow) {
  flow.erase(armed_);
  if (flow.get(digest_) % 2 != 0) counts_.erase(kErasedKey);
  Count(kErasedKey, 1);
  Note(flow, kFired);
}

void FailoverNf::on_end(FlowState& flow) {
  if (flow.has(piece_)) flow.give_back(pool_, flow.get(piece_));
  Count(2, 1);
  Note(flow, 0);
  did.pieces = 0;
  did.alias = {};
  did.is_armed = false;
  did.has_ended = true;
}

// Of what the packet did, the alias alone is taken back.
void FailoverNf::on_alias_refused(FlowState& flow, AliasResult /*why*/) {
  flow.erase(alias_);
  Count(3, 1);
  NoteWhatIsThere(flow);
}

void FailoverNf::Count(uint64_t key, uint64_t n) {
  counts_.update(key, n);
  did.counts[key] += n;
}

void FailoverNf::Note(FlowState& flow, uint64_t adds) {
  did.seen = flow.get(digest_);
  did.adds = adds;
  if (adds != 0) flow.put(digest_, Extended(did.seen, adds));
  NoteWhatIsThere(flow);
}

void FailoverNf::NoteWhatIsThere(const FlowState& flow) {
  was_called = true;
  did.alias = flow.has(alias_) ? AliasOf(flow.get(alias_)) : FlowKey{};
  did.pieces = flow.has(piece_) ? 1u << flow.get(piece_) : 0;
  did.is_armed = flow.has(armed_);
}

}  // namespace snf
