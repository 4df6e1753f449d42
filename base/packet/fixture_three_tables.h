// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_PACKET_FIXTURE_THREE_TABLES_H_
#define SNF_BASE_PACKET_FIXTURE_THREE_TABLES_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "base/lazy_array.h"
#include "base/packet/endpoint.h"
#include "base/packet/flow_key.h"
#include "base/packet/headers.h"
#include "base/packet/packet_info.h"
#include "base/packet/rewrite.h"

namespace snf {

// A firewall, a monitor and a NAT written by hand into one loop, each with a
// hash table of its own. Their cost is the floor with which a chain of the
// three NFs is compared (platform/commands/bench/budgets.md rows 1 and 2).
// Packets are already parsed. Like ParseLookupFloor it exists only for
// benchmarks: it never grows or forgets, and knows only IPv4 with TCP and UDP.
class ThreeTableFloor {
 public:
  static constexpr size_t kBatch = 32;

  // `flows` is the number of inside endpoints, each with one connection to one
  // of at most 1,000 hosts. With hosts the monitor also counts the hosts, in a
  // fourth table.
  ThreeTableFloor(size_t flows, bool with_hosts)
      : firewall_(flows),
        monitor_(flows),
        nat_(2 * flows),
        hosts_(flows + 1'000),
        with_hosts_(with_hosts) {}

  // A packet, which is translated in place. A connection begins from the
  // inside; a packet from the outside has an address that the NAT gave out.
  struct Item {
    std::span<std::byte> frame;
    const PacketInfo* info;
  };
  // Handles at most kBatch packets.
  void Batch(std::span<const Item> items) {
    const size_t count = items.size();
    for (size_t i = 0; i < count; ++i) {
      Pending& pending = pending_[i];
      pending.end = EndOf(items[i]);
      pending.end_hash = hash_(pending.end);
      nat_.Prefetch(pending.end_hash);
      // The connection of a packet from the outside is known once the packet is
      // translated.
      if (items[i].info->side == Side::kInside) Look(items[i], pending);
    }
    for (size_t i = 0; i < count; ++i) {
      Translate(items[i], pending_[i]);
      if (items[i].info->side == Side::kOutside) Look(items[i], pending_[i]);
    }
    for (size_t i = 0; i < count; ++i) Count(*items[i].info, pending_[i]);
  }

 private:
  // A hash table with open addressing, at most half full, each entry a cache
  // line.
  template <typename Value>
  class Table {
   public:
    explicit Table(size_t max) : entries_(std::bit_ceil(2 * max)) {}

    void Prefetch(uint64_t hash) const {
      __builtin_prefetch(&entries_[hash & (entries_.size() - 1)], 1);
    }
    Value& operator()(const FlowKey& key, uint64_t hash) {
      size_t at = hash & (entries_.size() - 1);
      while (!(entries_[at].key == key)) {
        if (entries_[at].key.form == FlowKeyForm::kNone) {
          entries_[at].key = key;
          break;
        }
        at = (at + 1) & (entries_.size() - 1);
      }
      return entries_[at].value;
    }

   private:
    struct Entry {
      FlowKey key;
      Value value;
    };
    static_assert(sizeof(Entry) == 64);
    LazyArray<Entry> entries_;
  };

  struct Connection {
    uint64_t state;  // 1: open
    int64_t last_ns;
    uint64_t zero;
  };
  struct Use {
    uint64_t packets;
    uint64_t bytes;
    int64_t last_ns;
  };
  struct Mapping {
    be32 address;
    be16 port;
    uint16_t is_known;
    int64_t last_ns;
    uint64_t zero;
  };
  struct Pending {
    FlowKey end;
    uint64_t end_hash;
    FlowKey connection;
    uint64_t hash;
    std::array<FlowKey, 2> hosts;
    std::array<uint64_t, 2> host_hashes;
  };

  static FlowKey EndOf(const Item& item) {
    const ParsedPacket& headers = item.info->headers;
    const std::span<const std::byte> frame = item.frame;
    const bool source = item.info->side == Side::kInside;
    const auto ip = Ipv4Header<const std::byte>::At(frame, headers.l3_offset);
    const auto ports = PortsView<const std::byte>::At(frame, headers.l4_offset);
    return EndpointKey(
        IpAddress::FromIpv4(source ? ip.source() : ip.destination()),
        source ? ports.source_port() : ports.destination_port(),
        headers.l4_protocol, FlowKeyForm::kIpv4Endpoint);
  }

  // Finds the packet's connection, between an end inside and one outside, and
  // prefetches its entries.
  void Look(const Item& item, Pending& pending) {
    ConnectionKey(item.frame, item.info->headers, false, pending.connection);
    pending.hash = hash_(pending.connection);
    firewall_.Prefetch(pending.hash);
    monitor_.Prefetch(pending.hash);
    if (!with_hosts_) return;
    const std::array<IpAddress, 2> hosts = {pending.connection.source,
                                            pending.connection.destination};
    for (size_t h = 0; h < 2; ++h) {
      pending.hosts[h] =
          EndpointKey(hosts[h], be16(0), {}, FlowKeyForm::kIpv4Endpoint);
      pending.host_hashes[h] = hash_(pending.hosts[h]);
      hosts_.Prefetch(pending.host_hashes[h]);
    }
  }

  void Translate(const Item& item, const Pending& pending) {
    Mapping& mapping = nat_(pending.end, pending.end_hash);
    const bool out = item.info->side == Side::kInside;
    if (mapping.is_known == 0) [[unlikely]] {
      mapping = Add(pending.end, out);
    }
    mapping.last_ns = item.info->arrival.ns;
    const ParsedPacket& headers = item.info->headers;
    if (out) {
      RewriteSource(item.frame, headers, mapping.address, mapping.port);
    } else {
      RewriteDestination(item.frame, headers, mapping.address, mapping.port);
    }
  }
  Mapping Add(const FlowKey& inside, bool out) {
    SNF_CHECK(out);
    const uint32_t number = mappings_++;
    const auto port = be16(static_cast<uint16_t>(1'024 + number % 60'000));
    const be32 address(0xc000'0201 + number / 60'000);
    const FlowKey external =
        EndpointKey(IpAddress::FromIpv4(address), port, inside.protocol,
                    FlowKeyForm::kIpv4Endpoint);
    nat_(external, hash_(external)) = {inside.source.ipv4(), inside.source_port,
                                       1, 0, 0};
    return {address, port, 1, 0, 0};
  }

  void Count(const PacketInfo& info, const Pending& pending) {
    Connection& connection = firewall_(pending.connection, pending.hash);
    if (connection.state == 0) {
      SNF_CHECK(info.side == Side::kInside);
      connection.state = 1;
    }
    connection.last_ns = info.arrival.ns;
    Add(monitor_(pending.connection, pending.hash), info);
    if (!with_hosts_) return;
    for (size_t h = 0; h < 2; ++h) {
      Add(hosts_(pending.hosts[h], pending.host_hashes[h]), info);
    }
  }
  static void Add(Use& use, const PacketInfo& info) {
    ++use.packets;
    use.bytes += info.original_length;
    use.last_ns = info.arrival.ns;
  }

  FlowKeyHash hash_{1};
  Table<Connection> firewall_;
  Table<Use> monitor_;
  Table<Mapping> nat_;
  Table<Use> hosts_;
  bool with_hosts_;
  uint32_t mappings_ = 0;
  std::array<Pending, kBatch> pending_;
};

}  // namespace snf

#endif  // SNF_BASE_PACKET_FIXTURE_THREE_TABLES_H_
