// SPDX-License-Identifier: Apache-2.0
#include "traces/packet_filter.h"

#include <pcap/pcap.h>
#include <sys/socket.h>

#include <utility>

#include "base/byte_order.h"
#include "base/packet/link_headers.h"
#include "traces/capture_format.h"

namespace snf {
namespace {

// libpcap's own number for a link type, where it is not that of files. Frames
// of both kinds of loopback are given to it in network order.
int DataLinkOf(LinkType link) {
  if (link == LinkType::kRawIp) return DLT_RAW;
  return LinkTypeNumber(link == LinkType::kNull ? LinkType::kLoop : link);
}

}  // namespace

struct PacketFilter::Program {
  Program() = default;
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() { pcap_freecode(&code); }

  bpf_program code{};
};

PacketFilter::PacketFilter(std::string text) : text_(std::move(text)) {}
PacketFilter::~PacketFilter() = default;

absl::StatusOr<std::unique_ptr<PacketFilter>> PacketFilter::Compile(
    const std::string& text) {
  std::unique_ptr<PacketFilter> filter(new PacketFilter(text));
  // A filter that is invalid for every link type is reported before a packet is
  // read.
  absl::Status status = filter->CompileFor(LinkType::kEthernet);
  if (!status.ok()) return status;
  return filter;
}

absl::Status PacketFilter::CompileFor(LinkType link) {
  auto program = std::make_unique<Program>();
  const std::unique_ptr<pcap_t, decltype(&pcap_close)> handle(
      pcap_open_dead(DataLinkOf(link), int{kMaxCapturedBytes}), pcap_close);
  if (handle == nullptr) return absl::InternalError("libpcap: no memory");
  if (pcap_compile(handle.get(), &program->code, text_.c_str(), /*optimize=*/1,
                   PCAP_NETMASK_UNKNOWN) != 0) {
    return absl::InvalidArgumentError("\"" + text_ +
                                      "\": " + pcap_geterr(handle.get()));
  }
  programs_[static_cast<size_t>(link)] = std::move(program);
  return absl::OkStatus();
}

std::span<const std::byte> PacketFilter::AsOfThisHost(
    std::span<const std::byte> frame) {
  const auto header = LoopbackHeader<const std::byte>::At(frame, 0);
  if (!header) return frame;
  frame_.assign(frame.begin(), frame.end());
  Store(frame_.data(), be32(header.is_ipv4()   ? AF_INET
                            : header.is_ipv6() ? AF_INET6
                                               : header.family()));
  return frame_;
}

bool PacketFilter::Passes(const CapturedPacket& packet) {
  std::unique_ptr<Program>& program =
      programs_[static_cast<size_t>(packet.link)];
  if (program == nullptr) {
    if (status_.ok()) status_ = CompileFor(packet.link);
    if (!status_.ok()) return false;
  }
  const bool is_loopback =
      packet.link == LinkType::kNull || packet.link == LinkType::kLoop;
  const std::span<const std::byte> bytes =
      is_loopback ? AsOfThisHost(packet.bytes) : packet.bytes;
  const pcap_pkthdr header = {.ts = {},
                              .caplen = static_cast<bpf_u_int32>(bytes.size()),
                              .len = packet.original_bytes};
  return pcap_offline_filter(&program->code, &header,
                             reinterpret_cast<const u_char*>(bytes.data())) !=
         0;
}

}  // namespace snf
