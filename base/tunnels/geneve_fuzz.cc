// SPDX-License-Identifier: Apache-2.0
//
// Parses any bytes as a GENEVE header and its options: nothing is read outside,
// and a parsed header can be built again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/tunnels/geneve.h"

namespace snf {
namespace {

void GoThrough(std::span<const std::byte> list) {
  GeneveOptions options(list);
  size_t bytes = 0;
  while (const auto option = options.Next()) {
    bytes += kGeneveOptionHeaderBytes + option->data.size();
    SNF_CHECK(bytes <= list.size());
    SNF_CHECK(option->data.data() + option->data.size() == list.data() + bytes);
  }
  SNF_CHECK(options.is_broken() == (bytes != list.size()));
}

void ParseAndBuild(std::span<const std::byte> payload) {
  constexpr GeneveOptionName kKnown[] = {
      {.option_class = 0x0108, .type = 0x81}};
  GeneveHeader header;
  const GeneveFault fault = ParseGeneve(payload, kKnown, header);
  SNF_CHECK(!Name(fault).empty());
  if (fault != GeneveFault::kNone) return;
  SNF_CHECK(header.bytes() <= payload.size());
  std::vector<GeneveOption> list;
  GeneveOptions options(header.options);
  while (const auto option = options.Next()) list.push_back(*option);
  std::vector<std::byte> room(kMaxGeneveBytes);
  const BuiltGeneve built = BuildGeneve(header, list, room);
  SNF_CHECK(built.fault == GeneveFault::kNone);
  SNF_CHECK(built.bytes == header.bytes());
  GeneveHeader again;
  SNF_CHECK(ParseGeneve(std::span(room).first(built.bytes), kKnown, again) ==
            GeneveFault::kNone);
  SNF_CHECK(again.is_control == header.is_control);
  SNF_CHECK(again.protocol == header.protocol);
  SNF_CHECK(again.network == header.network);
  SNF_CHECK(again.options.size() == header.options.size());
}

}  // namespace
}  // namespace snf

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  // The copy is as long as the payload, so that the sanitizer sees an access
  // beyond it.
  const auto payload = std::make_unique<std::byte[]>(bytes);
  std::copy_n(reinterpret_cast<const std::byte*>(data), bytes, payload.get());
  snf::GoThrough({payload.get(), bytes});
  snf::ParseAndBuild({payload.get(), bytes});
  return 0;
}
