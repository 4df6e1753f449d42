// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_RECOVERY_KEPT_INPUTS_H_
#define SNF_PLATFORM_COMMANDS_RECOVERY_KEPT_INPUTS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/packet/packet_info.h"
#include "platform/commands/recovery/drilled_unit.h"
#include "runtime/logger/log_entry.h"
#include "runtime/ring/buffer_pool.h"

namespace snf {

// Returns a hash of an entry's outputs: the outcome of its packet, and the
// bytes of the packet and of the emitted ones.
uint64_t DigestOf(const LogEntryView& entry, BufferPool& buffers);

// The inputs of a unit from one packet, timer or end until nothing runs or
// waits at the unit, with their outputs.
struct KeptStep {
  struct Input {
    UnitInput input;  // without its packet
    PacketInfo info;
    std::vector<std::byte> bytes;  // of the packet as it came

    bool has_packet() const {
      return input.kind == UnitInput::Kind::kPacket && input.meta.has_payload();
    }
  };
  struct Output {
    FlowId flow{};
    Clock clock{};
    uint64_t digest = 0;
  };
  std::vector<Input> inputs;
  std::vector<Output> outputs;  // if somebody notes them
  uint64_t last_entry = 0;      // the number of the newest entry after it
};

// The input log of a unit: the inputs to run again if it dies. Packets are
// copied before the NF writes them. Owner-thread only; grows with the kept
// inputs.
class KeptInputs {
 public:
  void BeginStep() { steps_.emplace_back(); }
  void Add(const UnitInput& input, BufferPool& buffers);
  void NoteOutput(const KeptStep::Output& output) {
    steps_.back().outputs.push_back(output);
  }
  void EndStep(uint64_t last_entry) { steps_.back().last_entry = last_entry; }

  // Forgets steps whose entries are all up to `entry`.
  void ForgetThrough(uint64_t entry);
  void Clear() { steps_.clear(); }
  const std::deque<KeptStep>& steps() const { return steps_; }

 private:
  std::deque<KeptStep> steps_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_RECOVERY_KEPT_INPUTS_H_
