// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_NF_H_
#define SNF_RUNTIME_SDK_NF_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/byte_order.h"
#include "base/check.h"
#include "base/messages/log_batch.h"
#include "base/messages/messages.h"
#include "runtime/sdk/flow_scope.h"
#include "runtime/sdk/nf_options.h"
#include "runtime/sdk/nf_report.h"
#include "runtime/sdk/packet.h"
#include "runtime/sdk/piece_set.h"
#include "runtime/sdk/shared_table.h"
#include "runtime/sdk/state.h"
#include "runtime/sdk/verdict.h"

#ifdef SNF_NF_MODULE
#include "runtime/sdk/nf_abi.h"
#endif

namespace snf {

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
// State of each flow is declared as slots, and read and written by get and put
// (state.h):
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
// An NF with options takes them in its constructor: Nat(NfOptions& options)
// (nf_options.h). A counter is one line too, and appears in reports:
//
//     Counter odd_ = declare_counter("odd", "frames of odd length");
//     … count(odd_);
//
// A log is one line as well: records go there exactly once whatever fails
// (FlowState::log, --nf_logs):
//
//     LogId frames_ = declare_log("frames", "frames of odd length");
//     … flow.log(frames_, "a frame of 61 bytes");
class NetworkFunction {
 public:
  virtual ~NetworkFunction() = default;

  // Returns the name under which the NF was registered, or its name in the
  // chain; "" if it was not made by NfRegistration::create.
  std::string_view name() const { return name_; }

  // Processes one packet of the flow and decides its outcome.
  virtual Verdict process_packet(Packet& packet, FlowState& flow) = 0;

  // The timer that process_packet set with flow.set_timer has run out.
  virtual void on_timer(FlowState& /*flow*/) {}

  // Called at the end of a flow, as the last call for it. Its state is removed
  // afterwards, so the NF must give back the pieces in it.
  virtual void on_end(FlowState& /*flow*/) {}
  // The alias that the last packet set was refused, and that packet was
  // dropped.
  virtual void on_alias_refused(FlowState& /*flow*/, AliasResult /*why*/) {}

  // The rule by which packets are one flow; the same for all objects of a
  // class.
  virtual FlowScope flow_scope() const { return FlowScope::kConnection; }

  // Returns the flow of a packet, for an NF whose flow_scope() is kOwnKey. An
  // NF of scope kInsideEndpoint is asked about packets from the outside: an
  // EndpointKey is the inside end of the packet; any other key leaves the
  // packet to the alias that it comes to. The answer depends on nothing but the
  // packet and the options, for every controller and every dispatcher asks an
  // object of its own. Budget: ≤ 20 ns, no allocation.
  //
  // Example: answers of the server 10.0.0.1:8080 belong to the connections of
  // the virtual address 192.0.2.10:80. Then the key of 10.0.0.1:8080 →
  // 203.0.113.9:5000 is that of 192.0.2.10:80 → 203.0.113.9:5000.
  virtual OwnFlow flow_key(const KeyedPacket& packet) const {
    return {.key = packet.connection};
  }
  // Returns false if flow_key tells no inside ends with these options. Then an
  // NF of scope kInsideEndpoint is not asked.
  virtual bool tells_inside_ends() const { return true; }

  // A declared pool. Its pieces first … last are bits of words of 64.
  struct Pool {
    std::string name;
    uint32_t first;  // piece
    uint32_t last;
    // The address of which pieces are ports, if they are.
    std::optional<be32> address = std::nullopt;
    uint32_t words() const { return last / 64 + 1; }
  };
  std::span<const Pool> pools() const { return pools_; }

  // Returns true if the NF filters or translates, so that no packet may leave
  // without having been before it: then the platform drops unreadable packets
  // (--unreadable). The same for all objects of a class.
  virtual bool is_barrier() const { return false; }
  // Returns true if the NF needs the first fragment of a packet before later
  // ones, as it shows the ports. Then the platform keeps later ones that come
  // early (--early_fragments). The same for all objects of a class.
  virtual bool needs_first_fragment() const { return is_barrier(); }

  // Returns true if the NF takes a frame of several packets of a connection
  // whole, as the machine's TCP hands it to a network card (GSO): up to 64 KiB
  // of payload, with the length and flags of all and a checksum of TCP or UDP
  // that is not complete. Such an NF counts by Packet::wire_packets(), neither
  // reads nor sets the checksum but by its changes (rewrite.h), and changes no
  // packet's size. Else the platform cuts such a frame before the NF gets it.
  // The same for all objects of a class with the same options.
  virtual bool takes_merged() const { return false; }

  // Names of the reasons that this NF drops for, at most kMaxDropReasons; they
  // appear in reports. Static lifetime.
  virtual std::span<const std::string_view> drop_reasons() const { return {}; }
  static constexpr size_t kMaxDropReasons = 32;
  // The most counters, pools and tables of an NF, of each kind.
  static constexpr size_t kMaxDeclared = 1'024;
  // The most bytes of a name, or of the help of a counter or a log.
  static constexpr size_t kMaxTextBytes = 16 * 1'024;

  // Names of the labels that the NF gives to packets that it forwards, so that
  // a chain can branch on them: "firewall | {suspicious: ids} | nat" (chain.h).
  // The first is that of forward(). At most kMaxLabels. Static lifetime.
  virtual std::span<const std::string_view> labels() const { return {}; }
  static constexpr size_t kMaxLabels = 32;

  // True if the NF ever calls flow.set_timer; only such an NF may.
  virtual bool has_timer() const { return false; }
  // True if process_packet may return Verdict::wait for the flow's next packet;
  // only then may it. False saves a chain its precautions.
  virtual bool may_wait(const FlowState& /*flow*/) const {
    return !pools_.empty();
  }

  // The declared counters, in order, and the counts of this object since it was
  // made.
  struct CounterInfo {
    std::string name;
    std::string help;
  };
  std::span<const CounterInfo> counters() const { return counters_; }
  std::span<const uint64_t> counts() const { return counts_; }
  // The declared logs, in order.
  struct LogInfo {
    std::string name;
    std::string help;
  };
  std::span<const LogInfo> logs() const { return logs_; }
  // Appends a record to `lines`, as one or more lines; appends nothing if a
  // threshold holds the record back. Called for each record of the NF's logs,
  // in the order in which records left, on an object that processes no packet,
  // and off the path of packets. By default a record is a line of text.
  virtual void write_record(const LogRecord& record, std::string& lines);

  // The NFs of a chain, by name; for any other NF only itself, without a name.
  struct Part {
    std::string_view name;
    const NetworkFunction* nf;
  };
  virtual std::vector<Part> parts() const { return {{"", this}}; }

  // The unit's copies of the declared tables. A chain has no tables of its own.
  std::span<const std::unique_ptr<TableCopy>> tables() const { return tables_; }

  // Returns what a user should know of the options before the run, although
  // they are valid: a sentence each, told at the start.
  virtual std::vector<std::string> warnings() const { return {}; }

  // Returns the NF's report at the end of a run. Called once, on an object that
  // has processed no packet and whose tables hold all updates of the run.
  virtual NfReport report() const { return {}; }

  // Returns true if states() returns anything; then only is it called.
  virtual bool has_states() const { return false; }
  // Returns the states of objects that the NF watches, at most kMaxStates; more
  // are left out. Called twice a second during a live run, on an object
  // that has processed no packet. Its tables hold the updates so far; a table
  // of more than kMaxStateEntries entries is empty. `now` is as
  // Packet::arrival().
  virtual std::vector<NfState> states(Instant /*now*/) const { return {}; }
  static constexpr size_t kMaxStates = 1'024;
  static constexpr uint32_t kMaxStateEntries = 8'192;

  // Between the two calls, counts and updates of tables are tentative: they are
  // kept only if `keep`. For chains.
  void BeginTentative() {
    kept_counts_ = counts_;
    for (const auto& table : tables_) table->BeginTentative();
  }
  void EndTentative(bool keep) {
    if (!keep) counts_ = kept_counts_;
    for (const auto& table : tables_) table->EndTentative(keep);
  }

  // The schema of the declared slots; all declarations must have been valid.
  // Its hash covers the registered name and the options if the object comes
  // from NfRegistration::create.
  const StateSchema& schema() const {
    SNF_CHECK(declared_.ok());
    return schema_;
  }
  // The first error in what the constructor declared, or in drop_reasons() and
  // labels(). NfRegistration::check and the loading of modules report it.
  const absl::Status& declared() const { return declared_; }

 protected:
  // Only a member initialiser or the constructor may declare: a later call
  // fails the NF (nf_call.h). Names of one kind differ within the NF, are not
  // empty and have no control characters.

  // Declares a slot of each flow's state, in a member initialiser. `name` tells
  // it apart from the NF's other slots. An NF has at most
  // StateSchema::kMaxSlots slots, which take at most kMaxRecordBytes together.
  template <typename T>
  Slot<T> declare(std::string_view name) {
    static_assert(sizeof(T) <= StateSchema::kMaxRecordBytes,
                  "a slot is too large: the state of a flow has at most 65,536 "
                  "bytes");
    const uint32_t index =
        Add(name, sizeof(T), StateSchema::KindOf<T>(), false);
    return {index, schema_.offset(index)};
  }
  // Declares a resource of which units get pieces, numbered first … last ≤
  // 65,535. If these are ports of an external IPv4 address, `address` lets the
  // platform find the owner of a packet from the outside.
  PoolId declare_pool(std::string name, uint32_t first, uint32_t last,
                      std::optional<be32> address = std::nullopt);
  // Declares up to max_bytes bytes of each flow's state; otherwise like
  // declare. With kSeldom, units do not prefetch it ahead of each packet.
  Blob declare_blob(std::string_view name, uint32_t max_bytes,
                    BlobUse use = BlobUse::kByMostPackets) {
    const uint32_t index = Add(name, max_bytes, {}, true);
    if (use == BlobUse::kSeldom) schema_.MarkSeldom(index);
    return {index, schema_.offset(index), max_bytes};
  }
  // Declares a table that all units write (shared_table.h, which explains
  // `merge`), of 1 to TableShape::kMaxEntries entries. Keys without updates for
  // `expires_after`, above 0, expire.
  template <typename Key, typename Value, typename Merge = SumOfWords>
  SharedTable<Key, Value> declare_shared(
      std::string name, uint32_t max_entries, Merge /*merge*/ = {},
      TableReader reader = TableReader::kPacket,
      Nanos expires_after = Nanos::max()) {
    using Table = SharedTable<Key, Value>;
    return Table(AddTable(Table::template ShapeOf<Merge>(
        std::move(name), max_entries, reader, expires_after)));
  }

  class Counter {
    friend class NetworkFunction;
    explicit Counter(uint32_t index) : index_(index) {}
    uint32_t index_;
  };
  // Declares a counter; `name` is unique in the NF.
  Counter declare_counter(std::string name, std::string help);
  // Declares a log; `name` is unique in the NF. A chain has at most
  // LogBatch::kMaxLogs.
  LogId declare_log(std::string name, std::string help);
  void count(Counter counter, uint64_t n = 1) { counts_[counter.index_] += n; }

 private:
  friend struct NfRegistration;
  friend class Chain;
  friend class DescribedNf;  // platform/modules: declares what another one has

  // Adds a slot and returns its index, or refuses it and returns 0.
  uint32_t Add(std::string_view slot, uint64_t bytes, std::string_view type,
               bool is_blob);
  TableCopy& AddTable(TableShape shape);
  void Refuse(std::string_view what, std::string_view name,
              std::string_view why);
  // Fails the NF if its constructor is over.
  void CheckDeclares(std::string_view what, std::string_view name) const;
  // Ends the time of declarations, and checks what virtual functions declare.
  void EndDeclaring();
  void CheckNames(std::string_view what, std::span<const std::string_view> all,
                  size_t most);

  std::string_view name_;
  bool is_declared_ = false;  // the constructor is over
  absl::Status declared_;
  StateSchema schema_;
  std::vector<Pool> pools_;
  std::vector<CounterInfo> counters_;
  std::vector<LogInfo> logs_;
  std::vector<uint64_t> counts_;
  std::vector<uint64_t> kept_counts_;  // before BeginTentative
  // Handles of tables are members of the NF, so an object with tables must not
  // be copied.
  struct Tables : std::vector<std::unique_ptr<TableCopy>> {
    Tables() = default;
    Tables(const Tables& other) : vector() { SNF_CHECK(other.empty()); }
    Tables& operator=(const Tables& other) {
      SNF_CHECK(empty() && other.empty());
      return *this;
    }
  };
  Tables tables_;
};

// One line of the registry. It lives as long as the program, and its name is
// unique: a second one ends the program with an error that names both files.
struct NfRegistration {
  using Factory =
      std::function<std::unique_ptr<NetworkFunction>(NfOptions& options)>;
  NfRegistration(std::string_view name, std::string_view summary,
                 Factory factory,
                 std::source_location where = std::source_location::current());

  // Returns a new object. Its schema contains the NF's name, so the schemas of
  // two NFs differ even if their slots are the same. check(options) must be OK.
  std::unique_ptr<NetworkFunction> create(const NfOptions& options = {}) const;
  // Returns OK if the NF takes these options and its declarations, drop reasons
  // and labels are valid, else the error.
  absl::Status check(const NfOptions& options) const;
  // Returns an object made without options, to look at but not to run: required
  // options may be missing.
  std::unique_ptr<NetworkFunction> example() const;
  // Returns an object, however wrong the options and its declarations are;
  // options.status() and declared() tell.
  std::unique_ptr<NetworkFunction> Make(NfOptions& options) const;
  // The options that the NF has, in order.
  std::vector<NfOptions::Description> options() const;

  std::string_view name;
  std::string_view summary;
  Factory factory;
  std::source_location where;
};

// Returns the NF of that name, or null.
const NfRegistration* FindNf(std::string_view name);
// Returns all NFs, sorted by name.
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

// Returns the shared tables of all NFs that `nf` is made of; they are the NF's.
std::vector<TableCopy*> TablesOf(const NetworkFunction& nf);
// A log of an NF, or of one of a chain.
struct NfLog {
  NetworkFunction* nf;  // that has declared it
  LogId own;            // its number there
  std::string name;     // "ids.alerts"
};
// Returns the logs of all NFs that `nf` is made of, by LogId.
std::vector<NfLog> LogsOf(const NetworkFunction& nf);

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_NF_H_
