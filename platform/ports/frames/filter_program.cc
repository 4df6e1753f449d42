// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/frames/filter_program.h"

#include <pcap/pcap.h>

#include <utility>

#include "base/check.h"

namespace snf {

static_assert(sizeof(FilterStep) == sizeof(bpf_insn) &&
              offsetof(FilterStep, value) == offsetof(bpf_insn, k));

FilterProgram::Label FilterProgram::NewLabel() {
  places_.push_back(0);
  return places_.size() - 1;
}

// A conditional jump reaches 255 steps, the other one any.
void FilterProgram::JumpIf(uint16_t test, uint32_t value, Label to) {
  steps_.push_back({static_cast<uint16_t>(BPF_JMP | test), 0, 1, value});
  Jump(to);
}

void FilterProgram::JumpUnless(uint16_t test, uint32_t value, Label to) {
  steps_.push_back({static_cast<uint16_t>(BPF_JMP | test), 1, 0, value});
  Jump(to);
}

void FilterProgram::Jump(Label to) {
  fixups_.push_back({steps_.size(), to});
  Add(BPF_JMP | BPF_JA);
}

std::vector<FilterStep> FilterProgram::Finish() {
  for (const Fixup& fixup : fixups_) {
    SNF_CHECK(places_[fixup.to] > fixup.step);
    steps_[fixup.step].value =
        static_cast<uint32_t>(places_[fixup.to] - fixup.step - 1);
  }
  return std::move(steps_);
}

uint32_t ResultOf(std::span<const FilterStep> program,
                  std::span<const std::byte> frame) {
  const auto length = static_cast<uint32_t>(frame.size());
  return bpf_filter(reinterpret_cast<const bpf_insn*>(program.data()),
                    reinterpret_cast<const u_char*>(frame.data()), length,
                    length);
}

bool Takes(std::span<const FilterStep> program,
           std::span<const std::byte> frame) {
  return ResultOf(program, frame) != 0;
}

}  // namespace snf
