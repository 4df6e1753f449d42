// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/xdp_program.h"

#include <linux/bpf.h>
#include <linux/if_link.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>

namespace snf {
namespace {

// bpf(2) of this command. What of `attributes` the command does not know is 0.
int Bpf(bpf_cmd command, bpf_attr& attributes) {
  return static_cast<int>(
      syscall(SYS_bpf, command, &attributes, sizeof attributes));
}

bpf_attr NoAttributes() {
  bpf_attr attributes;
  std::memset(&attributes, 0, sizeof attributes);
  return attributes;
}

uint64_t AddressOf(const void* value) {
  return reinterpret_cast<uintptr_t>(value);
}

// return bpf_redirect_map(sockets, context->rx_queue_index, XDP_PASS);
int LoadProgram(int sockets, bool takes_parts) {
  constexpr uint8_t kReturn = BPF_REG_0;
  constexpr uint8_t kMap = BPF_REG_1, kQueue = BPF_REG_2, kElse = BPF_REG_3;
  constexpr uint8_t kContext = BPF_REG_1;
  const std::array<bpf_insn, 6> code = {{
      {.code = BPF_LDX | BPF_MEM | BPF_W,
       .dst_reg = kQueue,
       .src_reg = kContext,
       .off = offsetof(xdp_md, rx_queue_index),
       .imm = 0},
      {.code = BPF_LD | BPF_IMM | BPF_DW,
       .dst_reg = kMap,
       .src_reg = BPF_PSEUDO_MAP_FD,
       .off = 0,
       .imm = sockets},
      {.code = 0, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0},
      {.code = BPF_ALU64 | BPF_MOV | BPF_K,
       .dst_reg = kElse,
       .src_reg = 0,
       .off = 0,
       .imm = XDP_PASS},
      {.code = BPF_JMP | BPF_CALL,
       .dst_reg = kReturn,
       .src_reg = 0,
       .off = 0,
       .imm = BPF_FUNC_redirect_map},
      {.code = BPF_JMP | BPF_EXIT,
       .dst_reg = 0,
       .src_reg = 0,
       .off = 0,
       .imm = 0},
  }};
  constexpr char kLicense[] = "Apache-2.0";
  bpf_attr attributes = NoAttributes();
  attributes.prog_type = BPF_PROG_TYPE_XDP;
  attributes.expected_attach_type = BPF_XDP;
  attributes.insns = AddressOf(code.data());
  attributes.insn_cnt = code.size();
  attributes.license = AddressOf(kLicense);
  if (takes_parts) attributes.prog_flags = BPF_F_XDP_HAS_FRAGS;
  return Bpf(BPF_PROG_LOAD, attributes);
}

}  // namespace

bool XdpProgram::Attach(int interface, uint32_t queues, bool takes_parts) {
  bpf_attr map = NoAttributes();
  map.map_type = BPF_MAP_TYPE_XSKMAP;
  map.key_size = sizeof(uint32_t);
  map.value_size = sizeof(uint32_t);
  map.max_entries = queues;
  sockets_ = Descriptor(Bpf(BPF_MAP_CREATE, map));
  if (!sockets_.is_open()) return false;
  program_ = Descriptor(LoadProgram(sockets_.number(), takes_parts));
  if (!program_.is_open()) return false;
  for (const bool is_native : {true, false}) {
    bpf_attr link = NoAttributes();
    link.link_create.prog_fd = static_cast<uint32_t>(program_.number());
    link.link_create.target_ifindex = static_cast<uint32_t>(interface);
    link.link_create.attach_type = BPF_XDP;
    link.link_create.flags =
        is_native ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE;
    link_ = Descriptor(Bpf(BPF_LINK_CREATE, link));
    is_native_ = is_native;
    if (link_.is_open()) return true;
  }
  return false;
}

bool XdpProgram::Redirect(uint32_t queue, int socket) {
  const auto value = static_cast<uint32_t>(socket);
  bpf_attr entry = NoAttributes();
  entry.map_fd = static_cast<uint32_t>(sockets_.number());
  entry.key = AddressOf(&queue);
  entry.value = AddressOf(&value);
  return Bpf(BPF_MAP_UPDATE_ELEM, entry) == 0;
}

void XdpProgram::RedirectNoMore(uint32_t queue) {
  bpf_attr entry = NoAttributes();
  entry.map_fd = static_cast<uint32_t>(sockets_.number());
  entry.key = AddressOf(&queue);
  Bpf(BPF_MAP_DELETE_ELEM, entry);
}

}  // namespace snf
