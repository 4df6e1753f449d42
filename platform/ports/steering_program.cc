// SPDX-License-Identifier: Apache-2.0
#include <linux/filter.h>

#include <array>
#include <initializer_list>

#include "base/packet/packet_parser.h"
#include "base/packet/protocol_numbers.h"
#include "platform/ports/steering.h"

namespace snf {

// Theory of operation. Writes the program of one side. X is where a header
// would stand if the frame had nothing but 14 bytes of Ethernet in front of it:
// so all offsets below are for such a frame. Scratch words hold the host's
// address, and the port at it.
//
//   tags ─┬─► ARP ────────────────────────┬─► bucket of the address ─► own?
//         ├─► IPv4 ─┬─► ICMP error: quoted ┤
//         │         └─► port, if it has one┴─► external address: block ─► own?
//         ├─► IPv6 ───────────────────────► bucket of the address ─► own?
//         └─► else: the rest ─► own?
//
// A program that names places returns them where this asks "own?".
class SteeringProgram {
 public:
  SteeringProgram(const Steering& steering, Side side, bool names_places,
                  bool routes = false)
      : steering_(steering),
        names_places_(names_places),
        routes_(routes),
        is_inside_(side == Side::kInside),
        knows_ports_(!is_inside_ && steering.has_external()) {}

  std::vector<FilterStep> Write() {
    if (!names_places_ && !steering_.OwnsAny()) {
      Return(0);  // later fragments as well
      return p_.Finish();
    }
    SkipTags();
    p_.Bind(arp_);
    WriteArp();
    p_.Bind(ipv4_);
    WriteIpv4();
    p_.Bind(ipv6_);
    WriteIpv6();
    WriteEnds();
    return p_.Finish();
  }

 private:
  using Label = FilterProgram::Label;

  // Scratch words.
  static constexpr uint32_t kHost = 0;  // an IPv4 address, or the fold of IPv6
  static constexpr uint32_t kPort = 1;  // a port, or one of the next two
  static constexpr uint32_t kProtocol = 2;
  static constexpr uint32_t kPlace = 3;  // X
  static constexpr uint32_t kNoPort = 0x1'0000;
  static constexpr uint32_t kAnyPort = 0x2'0000;  // of a later fragment

  static constexpr uint32_t kLink = 14;   // bytes of Ethernet
  static constexpr uint32_t kInIcmp = 8;  // bytes before the quoted packet
  static constexpr uint32_t kIpv4Bytes = 20;
  static constexpr uint32_t kIpv6Bytes = 40;
  static constexpr uint32_t kArpBytes = 28;
  static constexpr uint32_t kGolden = 0x9e37'79b1;

  void Byte(uint32_t at) { p_.Add(BPF_LD | BPF_B | BPF_IND, at); }
  void Half(uint32_t at) { p_.Add(BPF_LD | BPF_H | BPF_IND, at); }
  void Word(uint32_t at) { p_.Add(BPF_LD | BPF_W | BPF_IND, at); }
  void Load(uint32_t scratch) { p_.Add(BPF_LD | BPF_MEM, scratch); }
  void Store(uint32_t scratch) { p_.Add(BPF_ST, scratch); }
  void StoreValue(uint32_t scratch, uint32_t value) {
    p_.Add(BPF_LD | BPF_IMM, value);
    Store(scratch);
  }
  // A load from beyond the end would end the program.
  void Want(uint32_t bytes, Label otherwise) {
    p_.Add(BPF_LD | BPF_W | BPF_LEN);
    p_.JumpUnless(BPF_JGE | BPF_X, 0, otherwise);
    p_.Add(BPF_ALU | BPF_SUB | BPF_X);
    p_.JumpUnless(BPF_JGE, bytes, otherwise);
  }
  void WantVersion(uint32_t at, uint32_t version, Label otherwise) {
    Byte(at);
    p_.Add(BPF_ALU | BPF_AND | BPF_K, 0xf0);
    p_.JumpUnless(BPF_JEQ, version << 4, otherwise);
  }
  // X moves on by the length of the IPv4 header there.
  void SkipIpv4(uint32_t at) {
    Byte(at);
    p_.Add(BPF_ALU | BPF_AND | BPF_K, 0x0f);
    p_.Add(BPF_ALU | BPF_LSH | BPF_K, 2);
    p_.Add(BPF_ALU | BPF_ADD | BPF_X);
    p_.Add(BPF_MISC | BPF_TAX);
  }
  void JumpIfAnyOf(std::initializer_list<uint32_t> values, Label to) {
    for (const uint32_t value : values) p_.JumpIf(BPF_JEQ, value, to);
  }

  void SkipTags() {
    p_.Add(BPF_LDX | BPF_W | BPF_IMM, 0);
    for (int tags = 0; tags <= kMaxVlanTags; ++tags) {
      Want(kLink, first_);
      Half(12);
      p_.JumpIf(BPF_JEQ, static_cast<uint32_t>(EtherType::kIpv4), ipv4_);
      p_.JumpIf(BPF_JEQ, static_cast<uint32_t>(EtherType::kIpv6), ipv6_);
      p_.JumpIf(BPF_JEQ, static_cast<uint32_t>(EtherType::kArp), arp_);
      if (tags == kMaxVlanTags) break;
      const Label is_tag = p_.NewLabel();
      JumpIfAnyOf({static_cast<uint32_t>(EtherType::kVlan),
                   static_cast<uint32_t>(EtherType::kServiceVlan),
                   static_cast<uint32_t>(EtherType::kOldServiceVlan)},
                  is_tag);
      p_.Jump(first_);
      p_.Bind(is_tag);
      p_.Add(BPF_MISC | BPF_TXA);
      p_.Add(BPF_ALU | BPF_ADD | BPF_K, 4);
      p_.Add(BPF_MISC | BPF_TAX);
    }
    p_.Jump(first_);
  }

  // Steers ARP by the sender's address, or by the address that is asked for or
  // answered.
  void WriteArp() {
    Want(kLink + kArpBytes, first_);
    Half(kLink + 2);
    p_.JumpUnless(BPF_JEQ, static_cast<uint32_t>(EtherType::kIpv4), first_);
    if (routes_) {
      p_.Jump(take_);
      return;
    }
    Word(kLink + (is_inside_ ? 14 : 24));
    Store(kHost);
    p_.Jump(bucket_);
  }

  void WriteIpv4() {
    const Label has_port = p_.NewLabel(), later = p_.NewLabel(),
                icmp = p_.NewLabel();
    Want(kLink + kIpv4Bytes, first_);
    WantVersion(kLink, 4, first_);
    Word(kLink + (is_inside_ ? 12 : 16));
    Store(kHost);
    StoreValue(kPort, kNoPort);
    Half(kLink + 6);
    p_.JumpIf(BPF_JSET, 0x1fff, later);
    Byte(kLink + 9);
    p_.JumpIf(BPF_JEQ, static_cast<uint32_t>(IpProtocol::kIcmp), icmp);
    if (knows_ports_) JumpIfHasPorts(has_port);
    p_.Jump(host_);
    p_.Bind(later);
    if (knows_ports_) StoreValue(kPort, kAnyPort);
    p_.Jump(host_);
    if (knows_ports_) {
      p_.Bind(has_port);
      SkipIpv4(kLink);
      ReadPort(kLink + 2);
    }
    p_.Bind(icmp);
    SkipIpv4(kLink);
    WriteIcmp();
  }

  void JumpIfHasPorts(Label to) {
    for (uint32_t protocol = 0; protocol < 256; ++protocol) {
      if (!HasPorts(IpProtocol{static_cast<uint8_t>(protocol)})) continue;
      p_.JumpIf(BPF_JEQ, protocol, to);
    }
  }

  void ReadPort(uint32_t at) {
    Want(at + 2, host_);
    Half(at);
    Store(kPort);
    p_.Jump(host_);
  }

  // The accumulator has the type of a message.
  void JumpIfIsQuery(Label to) {
    JumpIfAnyOf({0, 8, 13, 14, 15, 16, 17, 18, 42, 43}, to);
  }

  void WriteIcmp() {
    const Label error = p_.NewLabel(), query = p_.NewLabel();
    Want(kLink + kInIcmp, host_);
    Byte(kLink);
    JumpIfAnyOf({3, 4, 5, 11, 12}, error);
    if (knows_ports_) JumpIfIsQuery(query);
    p_.Jump(host_);
    p_.Bind(query);
    ReadPort(kLink + 4);
    p_.Bind(error);
    // An ICMP error goes the other way than the packet that it quotes.
    constexpr uint32_t kQuoted = kLink + kInIcmp;
    Want(kQuoted + kIpv4Bytes, host_);
    WantVersion(kQuoted, 4, host_);
    Word(kQuoted + (is_inside_ ? 16 : 12));
    Store(kHost);
    if (knows_ports_) WriteQuotedPort(kQuoted);
    p_.Jump(host_);
  }

  void WriteQuotedPort(uint32_t quoted) {
    const Label has_port = p_.NewLabel(), query = p_.NewLabel();
    Half(quoted + 6);
    p_.JumpIf(BPF_JSET, 0x1fff, host_);
    Byte(quoted + 9);
    Store(kProtocol);
    SkipIpv4(quoted);
    Load(kProtocol);
    JumpIfHasPorts(has_port);
    p_.JumpUnless(BPF_JEQ, static_cast<uint32_t>(IpProtocol::kIcmp), host_);
    Want(quoted + 1, host_);
    Byte(quoted);
    JumpIfIsQuery(query);
    p_.Jump(host_);
    p_.Bind(query);
    ReadPort(quoted + 4);
    p_.Bind(has_port);
    ReadPort(quoted);
  }

  void WriteIpv6() {
    const Label plain = p_.NewLabel();
    const uint32_t end = is_inside_ ? 8 : 24;
    const uint32_t other_end = is_inside_ ? 24 : 8;
    constexpr uint32_t kIcmp = kLink + kIpv6Bytes;
    constexpr uint32_t kQuoted = kIcmp + kInIcmp;
    Want(kLink + kIpv6Bytes, first_);
    WantVersion(kLink, 6, first_);
    p_.Add(BPF_STX, kPlace);
    Byte(kLink + 6);
    p_.JumpUnless(BPF_JEQ, static_cast<uint32_t>(IpProtocol::kIcmpv6), plain);
    if (routes_) TakeDiscovery(kIcmp);
    Want(kQuoted + kIpv6Bytes, plain);
    Byte(kIcmp);
    p_.JumpIf(BPF_JGE, 128, plain);
    WantVersion(kQuoted, 6, plain);
    Fold(kQuoted + other_end);
    p_.Jump(bucket_);
    p_.Bind(plain);
    Fold(kLink + end);
    p_.Jump(bucket_);
  }

  // Router and neighbour discovery, and redirects (RFC 4861).
  void TakeDiscovery(uint32_t icmp) {
    constexpr uint32_t kFirst = 133, kLast = 137;
    const Label other = p_.NewLabel();
    Want(icmp + 1, other);
    Byte(icmp);
    p_.JumpUnless(BPF_JGE, kFirst, other);
    p_.JumpUnless(BPF_JGT, kLast, take_);
    p_.Bind(other);
  }

  void Fold(uint32_t at) {
    StoreValue(kHost, 0);
    for (uint32_t word = 0; word < 4; ++word) {
      p_.Add(BPF_LDX | BPF_W | BPF_MEM, kPlace);
      Word(at + 4 * word);
      p_.Add(BPF_LDX | BPF_W | BPF_MEM, kHost);
      p_.Add(BPF_ALU | BPF_XOR | BPF_X);
      p_.Add(BPF_ALU | BPF_MUL | BPF_K, kGolden);
      Store(kHost);
    }
  }

  void WriteEnds() {
    const Label block = p_.NewLabel();
    p_.Bind(host_);
    if (knows_ports_) {
      Load(kHost);
      for (const be32 address : steering_.external_) {
        p_.JumpIf(BPF_JEQ, address.host(), block);
      }
    }
    p_.Jump(bucket_);
    p_.Bind(block);
    Load(kPort);
    p_.JumpIf(BPF_JEQ, kAnyPort, later_);
    WriteBlocks();
    p_.Bind(bucket_);
    WriteBucket();
    p_.Bind(first_);
    End(Steering::kRest);
    p_.Bind(later_);
    if (names_places_) Return(Steering::kLaterFragment + 1);
    p_.Bind(take_);
    Return(~uint32_t{0});
    p_.Bind(leave_);
    Return(0);
  }

  void Return(uint32_t result) { p_.Add(BPF_RET | BPF_K, result); }

  // The frame goes by this place.
  void End(uint32_t place) {
    if (names_places_) {
      Return(place + 1);
    } else {
      p_.Jump(steering_.Owns(place) ? take_ : leave_);
    }
  }

  // A port in no block is the NF's to drop, at the controller of the address.
  void WriteBlocks() {
    for (const Steering::Block& block : steering_.blocks_) {
      const Label next = p_.NewLabel();
      p_.JumpIf(BPF_JGT, block.last, next);
      p_.JumpUnless(BPF_JGE, block.first, next);
      End(Steering::kFirstBlock + block.owner);
      p_.Bind(next);
    }
  }

  void WriteBucket() {
    Load(kHost);
    p_.Add(BPF_ALU | BPF_MUL | BPF_K, kGolden);
    p_.Add(BPF_ALU | BPF_RSH | BPF_K, 24);
    if (names_places_) {
      p_.Add(BPF_ALU | BPF_ADD | BPF_K, 1);
      p_.Add(BPF_RET | BPF_A);
    } else {
      WriteOwnBuckets();
    }
  }

  // By a bit for each bucket.
  void WriteOwnBuckets() {
    std::array<uint32_t, Steering::kBuckets / 32> own{};
    for (uint32_t bucket = 0; bucket < Steering::kBuckets; ++bucket) {
      if (steering_.Owns(bucket))
        own[bucket / 32] |= uint32_t{1} << bucket % 32;
    }
    Store(kHost);
    p_.Add(BPF_ALU | BPF_AND | BPF_K, 31);
    p_.Add(BPF_MISC | BPF_TAX);
    Load(kHost);
    p_.Add(BPF_ALU | BPF_RSH | BPF_K, 5);
    const Label shift = p_.NewLabel();
    for (uint32_t i = 0; i < own.size(); ++i) {
      const Label other = p_.NewLabel();
      p_.JumpUnless(BPF_JEQ, i, other);
      p_.Add(BPF_LD | BPF_IMM, own[i]);
      p_.Jump(shift);
      p_.Bind(other);
    }
    p_.Bind(shift);
    p_.Add(BPF_ALU | BPF_RSH | BPF_X);
    p_.JumpIf(BPF_JSET, 1, take_);
    p_.Jump(leave_);
  }

  const Steering& steering_;
  const bool names_places_;
  const bool routes_;  // all controllers take ARP and discovery
  const bool is_inside_;
  const bool knows_ports_;  // else an address is enough
  FilterProgram p_;
  // Labels of the places that decide by the scratch words.
  const Label arp_ = p_.NewLabel(), ipv4_ = p_.NewLabel(),
              ipv6_ = p_.NewLabel();
  const Label host_ = p_.NewLabel();    // by kHost, and kPort where it tells
  const Label bucket_ = p_.NewLabel();  // by kHost
  const Label first_ = p_.NewLabel();   // the rest
  const Label later_ = p_.NewLabel();   // all take it
  const Label take_ = p_.NewLabel(), leave_ = p_.NewLabel();
};

std::vector<FilterStep> Steering::Program(Side side, bool routes) const {
  return SteeringProgram(*this, side, false, routes).Write();
}

std::vector<FilterStep> Steering::PlaceProgram(Side side) const {
  return SteeringProgram(*this, side, true).Write();
}

}  // namespace snf
