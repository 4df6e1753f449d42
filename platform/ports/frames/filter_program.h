// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_FRAMES_FILTER_PROGRAM_H_
#define SNF_PLATFORM_PORTS_FRAMES_FILTER_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace snf {

// A step of a classic BPF program, as sock_filter of <linux/filter.h> and
// bpf_insn of <pcap/pcap.h> are.
struct FilterStep {
  uint16_t code;
  uint8_t if_true;  // steps that are skipped
  uint8_t if_false;
  uint32_t value;
};

// Writes a classic BPF program (the kernel's networking/filter.rst), which
// returns how many bytes of a frame are taken. Its jumps go forward to labels,
// however far they are. A value.
class FilterProgram {
 public:
  using Label = size_t;

  Label NewLabel();
  // The next step has this label. Call it once for each, after all jumps to it.
  void Bind(Label label) { places_[label] = steps_.size(); }

  // Adds a step. Codes are the kernel's BPF_… constants, and jumps compare the
  // accumulator with the value.
  void Add(uint16_t code, uint32_t value = 0) {
    steps_.push_back({code, 0, 0, value});
  }
  void JumpIf(uint16_t test, uint32_t value, Label to);
  void JumpUnless(uint16_t test, uint32_t value, Label to);
  void Jump(Label to);

  // Returns the program, whose labels are all bound.
  std::vector<FilterStep> Finish();

 private:
  struct Fixup {
    size_t step;
    Label to;
  };
  std::vector<FilterStep> steps_;
  std::vector<size_t> places_;  // by label
  std::vector<Fixup> fixups_;
};

// Returns the program's result for the frame, as the kernel's would be.
uint32_t ResultOf(std::span<const FilterStep> program,
                  std::span<const std::byte> frame);
// Returns true if the program accepts the frame.
bool Takes(std::span<const FilterStep> program,
           std::span<const std::byte> frame);

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_FRAMES_FILTER_PROGRAM_H_
