// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_EPOCH_SERIES_H_
#define SNF_PLATFORM_RUN_EPOCH_SERIES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace snf {

// Holds the figures of an epoch of 100 ms. Epochs are numbered from the Unix
// epoch, and begin as much later than whole 100 ms as the run's first packet
// did. Epochs in which nothing happened and no unit was up are left out.
struct EpochSample {
  int64_t epoch = 0;
  // Cost (PacketCost) of packets that reached the controller, and of packets
  // that units finished.
  uint64_t offered_bytes = 0;
  uint64_t drained_bytes = 0;
  uint64_t dropped_packets = 0;
  int64_t unit_ns = 0;  // time that units were up, summed over units
};

// Sums samples that were forgotten.
struct ForgottenEpochs {
  uint64_t epochs = 0;
  uint64_t with_offered = 0;  // epochs in which something was offered
  uint64_t offered_bytes = 0;
  uint64_t drained_bytes = 0;
  uint64_t most_offered_bytes = 0;  // in one epoch

  void Add(const EpochSample& sample) {
    ++epochs;
    with_offered += sample.offered_bytes > 0 ? 1 : 0;
    offered_bytes += sample.offered_bytes;
    drained_bytes += sample.drained_bytes;
    most_offered_bytes = std::max(most_offered_bytes, sample.offered_bytes);
  }
};

// Holds the newest samples of a run, at most kMost: 29 hours of epochs with
// traffic, in 42 MB. In a longer run each new sample replaces the oldest one,
// which is added to a sum. Owner-thread only.
class EpochSeries {
 public:
  static constexpr size_t kMost = 1 << 20;

  // Makes room for kMost samples, so that push_back allocates nothing. Unused
  // memory costs nothing.
  void Reserve() { samples_.reserve(kMost); }

  bool empty() const { return samples_.empty(); }
  size_t size() const { return samples_.size(); }
  EpochSample& back() { return samples_[newest_]; }
  void push_back(const EpochSample& sample) {
    if (samples_.size() < kMost) {
      newest_ = samples_.size();
      samples_.push_back(sample);
      return;
    }
    newest_ = newest_ + 1 == kMost ? 0 : newest_ + 1;
    forgotten_.Add(samples_[newest_]);
    samples_[newest_] = sample;
  }
  // Counts epochs without traffic that have no sample.
  void Forget(int64_t epochs) {
    forgotten_.epochs += static_cast<uint64_t>(epochs);
  }
  const ForgottenEpochs& forgotten() const { return forgotten_; }

  // Returns the samples, the oldest first.
  std::vector<EpochSample> InOrder() const {
    std::vector<EpochSample> all = samples_;
    if (!all.empty()) {
      const auto oldest = static_cast<std::ptrdiff_t>(newest_ + 1);
      std::rotate(all.begin(), all.begin() + oldest, all.end());
    }
    return all;
  }

 private:
  std::vector<EpochSample> samples_;
  size_t newest_ = 0;
  ForgottenEpochs forgotten_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_EPOCH_SERIES_H_
