// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_NF_H_
#define SNF_RUNTIME_SDK_NF_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/messages.h"
#include "runtime/sdk/nf_options.h"
#include "runtime/sdk/packet.h"
#include "runtime/sdk/piece_set.h"
#include "runtime/sdk/state.h"

namespace snf {

// What becomes of a packet.
class Verdict {
 public:
  enum class Kind : uint8_t { kForward, kDrop, kConsume, kWait };

  static constexpr Verdict forward() { return {Kind::kForward, 0}; }
  // `reason` is an index into NetworkFunction::drop_reasons().
  static constexpr Verdict drop(uint8_t reason) {
    return {Kind::kDrop, reason};
  }
  // The packet was for the NF itself and goes no further.
  static constexpr Verdict consume() { return {Kind::kConsume, 0}; }

  // FlowState::take had no piece of `pool`: call again when more may be there.
  // Nothing may have been changed, taken or emitted. A packet may wait for one
  // pool and, if that is_exhausted(), for one other; then it is dropped.
  static constexpr Verdict wait(PoolId pool) { return {Kind::kWait, 0, pool}; }

  constexpr Kind kind() const { return kind_; }
  constexpr uint8_t reason() const { return reason_; }
  constexpr PoolId pool() const { return pool_; }

 private:
  constexpr Verdict(Kind kind, uint8_t reason, PoolId pool = {})
      : kind_(kind), reason_(reason), pool_(pool) {}
  Kind kind_;
  uint8_t reason_;
  PoolId pool_;
};

// Theory of operation. A network function is one class in one file, with one
// registration line, and nothing else changes when it is added:
//
//     class DropOdd final : public NetworkFunction {
//       Verdict process_packet(Packet& packet, FlowState&) override {
//         return packet.bytes().size() % 2 ? Verdict::drop(0)
//                                          : Verdict::forward();
//       }
//       std::span<const std::string_view> drop_reasons() const override {
//         static constexpr std::string_view kReasons[] = {"odd_length"};
//         return kReasons;
//       }
//     };
//     SNF_REGISTER_NF(DropOdd, "drop_odd", "drops frames of odd length");
//
// What it keeps for each flow it declares as slots, and reads and writes by
// get and put (state.h):
//
//     class Count final : public NetworkFunction {
//       Slot<uint64_t> packets_ = declare<uint64_t>("packets");
//       Verdict process_packet(Packet&, FlowState& flow) override {
//         flow.put(packets_, flow.get(packets_) + 1);
//         return Verdict::forward();
//       }
//     };
//
// The platform runs it on as many units as the traffic needs, and gives every
// packet of a flow to it in order, one at a time. One object serves one unit;
// it is called by one thread at a time. A call neither blocks nor reads a
// clock: packet.arrival() is the time.
//
// An NF with options takes them in its constructor: Nat(NfOptions& options).
enum class FlowScope : uint8_t {
  kConnection,  // as --flow_key says
  // All connections of one inside address, port and protocol (of ICMP queries,
  // identifier) are one flow, and what comes to its alias (decisions.md 15).
  // The flow's key is EndpointKey(…) of that endpoint.
  kInsideEndpoint,
};

class NetworkFunction {
 public:
  virtual ~NetworkFunction() = default;

  virtual Verdict process_packet(Packet& packet, FlowState& flow) = 0;

  // The timer that process_packet set with flow.set_timer has run out.
  virtual void on_timer(FlowState& /*flow*/) {}

  // The flow is over: the last call for it. Its state is gone afterwards, so
  // give back pieces that it has.
  virtual void on_end(FlowState& /*flow*/) {}
  // The alias that the last packet set was refused, and that packet dropped.
  virtual void on_alias_refused(FlowState& /*flow*/, AliasResult /*why*/) {}

  // What makes packets one flow: the same for all objects of a class.
  virtual FlowScope flow_scope() const { return FlowScope::kConnection; }

  // Pools in the order of declaration: the words of 64 pieces that each has,
  // and which of their bits are pieces.
  struct Pool {
    std::string name;
    uint32_t first;  // piece
    uint32_t last;
    uint32_t words() const { return last / 64 + 1; }
  };
  std::span<const Pool> pools() const { return pools_; }

  // Names of the reasons that this NF drops for, at most kMaxDropReasons; they
  // appear in reports. Static lifetime.
  virtual std::span<const std::string_view> drop_reasons() const { return {}; }
  static constexpr size_t kMaxDropReasons = 32;

  // The slots declared. Its hash has the registered name in it if the object
  // comes from NfRegistration::create.
  const StateSchema& schema() const { return schema_; }

 protected:
  // Declares what is kept for each flow: in member initialisers. `name` tells
  // it apart from the NF's other slots. At most StateSchema::kMaxSlots, of
  // together kMaxRecordBytes.
  template <typename T>
  Slot<T> declare(std::string_view name) {
    static_assert(sizeof(T) <= StateSchema::kMaxRecordBytes);
    // The function's name as the compiler prints it has the type's in it.
    const uint32_t index =
        schema_.AddSlot(name, sizeof(T), __PRETTY_FUNCTION__);
    return {index, schema_.offset(index)};
  }
  // A resource of which units get pieces, numbered first … last ≤ 65,535.
  PoolId declare_pool(std::string name, uint32_t first, uint32_t last) {
    pools_.push_back({std::move(name), first, last});
    return PoolId{static_cast<uint16_t>(pools_.size() - 1)};
  }
  Blob declare_blob(std::string_view name, uint32_t max_bytes) {
    const uint32_t index = schema_.AddBlob(name, max_bytes);
    return {index, schema_.offset(index), max_bytes};
  }

 private:
  friend struct NfRegistration;

  StateSchema schema_;
  std::vector<Pool> pools_;
};

// One line of the registry. Lives for the whole program; its name is its own.
struct NfRegistration {
  using Factory = std::unique_ptr<NetworkFunction> (*)(NfOptions& options);
  NfRegistration(std::string_view name, std::string_view summary,
                 Factory factory);

  // A new object, whose schema bears the name: the schemas of two NFs differ
  // though their slots be the same. The options must be good: see check().
  std::unique_ptr<NetworkFunction> create(const NfOptions& options = {}) const;
  // Whether the NF takes these options; if not, what is wrong.
  absl::Status check(const NfOptions& options) const;

  std::string_view name;
  std::string_view summary;
  Factory factory;
  const NfRegistration* next;
};

// The NF of that name, or null.
const NfRegistration* FindNf(std::string_view name);
// All of them, by name.
std::vector<const NfRegistration*> ListNfs();

template <typename Class>
std::unique_ptr<NetworkFunction> MakeNf(NfOptions& options) {
  if constexpr (std::is_constructible_v<Class, NfOptions&>) {
    return std::make_unique<Class>(options);
  } else {
    return std::make_unique<Class>();
  }
}

#define SNF_REGISTER_NF(Class, name, summary)                 \
  static const ::snf::NfRegistration registration_of_##Class( \
      name, summary, ::snf::MakeNf<Class>)

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_NF_H_
