// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_SYNTHESIS_SYNTHESIZER_H_
#define SNF_TRACES_SYNTHESIS_SYNTHESIZER_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "traces/capture_format.h"
#include "traces/capture_reader.h"
#include "traces/synthesis/flow_model.h"
#include "traces/synthesis/overlay.h"
#include "traces/synthesis/overlay_tally.h"
#include "traces/synthesis/packet_maker.h"

namespace snf {

// Makes packets in the rhythm of a model's flows, at the times that an Overlay
// gives them.
//
// A model tells nothing about how its flows go on beyond its period. So if the
// duration exceeds the period by more than a little (which only widens the
// circle), several windows of equal length follow each other, each with flows
// of its own. Owner-thread only.
class Synthesizer {
 public:
  struct Options {
    int64_t rate_bps = 1'000'000'000;
    Nanos duration = Seconds(1);
    uint64_t seed = 1;
    Overlay::Bursts bursts = {};
    PacketMaker::Options packets = {};  // all but the seed
    uint32_t snap_bytes = kMaxCapturedBytes;
  };

  // Imitates `model`, which has flows and must stay unchanged as long as this
  // object.
  Synthesizer(const FlowModel& model, Options options);

  // Makes the next packet, whose bytes are valid until the next call. Returns
  // false at the end.
  bool Next(CapturedPacket& packet);

  // The lengths of a window, which the last one may fall short of, and of the
  // circle that its flows lie on.
  Nanos window() const;
  Nanos period() const { return std::max(model_.period(), window()); }
  uint64_t expected_bytes() const;
  const OverlayTally& tally() const { return tally_; }
  uint64_t with_string() const { return maker_.with_string(); }

 private:
  Nanos WindowBegin(int64_t number) const;
  bool NextWindow();

  const FlowModel& model_;
  Options options_;
  int64_t windows_;
  int64_t window_ = 0;  // which one comes next
  uint64_t copies_before_ = 0;
  std::optional<Overlay> overlay_;
  PacketMaker maker_;
  OverlayTally tally_;
  std::vector<PacketMaker::Flow> flows_;  // by slot
};

}  // namespace snf

#endif  // SNF_TRACES_SYNTHESIS_SYNTHESIZER_H_
