// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_SDK_SHARED_TABLE_H_
#define SNF_RUNTIME_SDK_SHARED_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/time.h"
#include "runtime/sdk/state_schema.h"
#include "runtime/sdk/table_copy.h"

namespace snf {

// The default merge: the sum of each word.
struct SumOfWords {};

// The reader of a table: packets, or reports only.
enum class TableReader : uint8_t { kPacket, kReport };

// A table that all units of a run write together: global state with eventual
// consistency (Serpens §III-B, §IV-A). This is a handle, which only
// NetworkFunction::declare_shared gives and which is valid as long as the NF:
//
//     struct Use {
//       uint64_t packets;
//       uint64_t bytes;
//     };
//     SharedTable<IpAddress, Use> hosts_ =
//         declare_shared<IpAddress, Use>("hosts", 65'536);
//     … hosts_.update(source, {1, packet.original_length()});
//
// Each unit works on a copy of its own, without waiting. Other units see its
// updates later, within the bound that table_replica.h states; in the end all
// copies are equal, and no update is lost or counted twice.
//
// Values are merged by the sum of each word, or by a hook: a lambda without
// captures that merges a second value into the first. The hook must be
// commutative and associative, and a value of zeros must change nothing. It
// needs no inverse, as a maximum has none: nothing is ever subtracted.
//
//     declare_shared<IpAddress, Peak>("peaks", 1'024,
//         [](Peak& value, const Peak& more) {
//           value.bps = std::max(value.bps, more.bps);
//         });
//
// A table that no packet reads may say so: its updates then leave the unit less
// often and cost less.
//
//     declare_shared<IpAddress, Use>("hosts", 65'536, SumOfWords{},
//                                    TableReader::kReport);
//
// Words of a sum may be signed: int64_t values add up below zero and back.
//
// A key may be erased, or expire by its age (declare_shared). Its value then
// goes into the rest, so the sum of all values and the rest is the sum of all
// updates. The home of the table orders them: an erasure takes the updates
// that the home merged before the erasure, and later ones begin a new value. A
// unit's own updates and erasures keep their order.
//
// Ages are looked at whenever the table is updated, by any unit: an idle table
// keeps its keys. A key so expires with the first update of any key, or of
// some dozens if many expire at once, after its age is reached.
//
//     SharedTable<IpAddress, Use> hosts_ = declare_shared<IpAddress, Use>(
//         "hosts", 65'536, SumOfWords{}, TableReader::kPacket, Seconds(60));
//
// A full table adds updates of further keys to its rest; but where keys have
// not been updated, by any unit, for as long as flows are kept
// (--flow_timeout), their values go into the rest and their room to new keys.
//
// The processing of a packet should not depend on get(), whose result depends
// on unit and moment. A run with --check does not compare flows whose packets
// read a table.
template <typename Key, typename Value>
class SharedTable {
  static_assert(std::is_trivially_copyable_v<Key> &&
                    std::is_trivially_copyable_v<Value>,
                "tables are copied between units as bytes");
  static_assert(std::has_unique_object_representations_v<Key> &&
                    std::has_unique_object_representations_v<Value>,
                "equal values must be equal bytes: no padding (name the gaps "
                "and set them to 0), no floating point");
  static_assert(
      internal::HasNoPointers<Key> && internal::HasNoPointers<Value>,
      "a pointer means nothing at another unit: tables have no pointers, "
      "references and unions, not in structs either, and a type with "
      "constructors has a constexpr one");
  static_assert(sizeof(Key) <= TableShape::kMaxKeyBytes,
                "a key of a table is too large: it has at most 64 bytes");
  static_assert(sizeof(Value) <= TableShape::kMaxValueBytes,
                "a value of a table is too large: it has at most 256 bytes");

 public:
  // Gives the table a timer, in the NF's constructor: the home calls `hook` for
  // each key, once after each period, above 0, and tells all units the new
  // value. The hook is a lambda without captures. If it returns false, the key
  // is erased.
  //
  //     rates_.every(Seconds(1), [](Rate& rate, uint64_t periods) {
  //       rate.before = periods == 1 ? rate.now : 0;
  //       rate.now = 0;
  //       return rate.before > 0;
  //     });
  //
  // An idle table costs nothing: a period ends with the first update, of any
  // key, that the home merges after its end, and `periods` says how many have
  // ended since the last call. The update itself counts in the new period if
  // the table has at most 256 keys. In a larger table, keys are called 256 at a
  // time, and updates that the home merges meanwhile come before or after.
  // Failures repeat and skip no call. Periods follow the clock of the home,
  // from its time 0; of several controllers, that of the controller whose unit
  // sends the update.
  template <typename Hook>
  void every(Nanos period, Hook /*hook*/) {
    static_assert(std::is_empty_v<Hook>, "a hook captures nothing");
    copy_->set_timer(period, CallHook<Hook>);
  }

  // Gives the table a trigger, in the NF's constructor: when an update that the
  // home merges makes `condition` of a key's total true, which was false before
  // the update, the home calls `hook` for the total, and tells all units the
  // changed total. Both are lambdas without captures: a bound that the NF's
  // options set goes with the value, merged by the greatest.
  //
  //     sources_.when(
  //         [](const Sketch& all) { return all.Estimate() >= all.many; },
  //         [](Sketch& all) { all.is_marked = 1; });
  //
  // Failures repeat and skip no call. If a merge never makes the condition
  // false, the order of updates does not matter. The rest has no trigger, and a
  // value of zeros, as a new key has, meets no condition.
  template <typename Condition, typename Hook>
  void when(Condition /*condition*/, Hook /*hook*/) {
    static_assert(std::is_empty_v<Condition> && std::is_empty_v<Hook>,
                  "a hook captures nothing");
    copy_->set_trigger(CallCondition<Condition>, CallOnCondition<Hook>);
  }

  // Merges `delta` into the key's value, which is zeros if the key is new, or
  // into the rest if there is no room. Budget: ≤ 15 ns in cache, no allocation.
  void update(const Key& key, const Value& delta) {
    copy_->Update<kKeyWords, kValueWords>(WordsOf<kKeyWords>(key).data(),
                                          WordsOf<kValueWords>(delta).data());
  }

  // Moves the key's value, of all units, into the rest. This unit sees that at
  // once, and other units later. Until the home has answered, for_each
  // may visit the key with Value{}. If the table is full and this unit does not
  // know the key, the key may stay; such erasures count as refused.
  void erase(const Key& key) { copy_->Erase(WordsOf<kKeyWords>(key).data()); }

  // Adds `delta`, above 0, if the value as this unit knows it is below `limit`;
  // returns true if it did. For sums of one int64_t or uint64_t.
  //
  // The error. A unit counts its own updates at once, and other units' after
  // S at most, the staleness that table_replica.h states. At default options,
  // if nothing is lost, S is about 20 ms while the unit reads the table every
  // 10 ms, and about 1 s after a pause. Let D be the most that the other units
  // add in S. Then the true value stays below limit + delta + D. If u units,
  // of one or several controllers (proto/protocol.md T8), only add, it also
  // stays below u · (limit + delta). On one unit it stays below limit + delta.
  // If a call is refused while the true value is below the limit, other units
  // took away the difference within the last S.
  bool add_if_below(const Key& key, Value limit,
                    Value delta = 1) requires(std::is_same_v<Value, int64_t> ||
                                              std::is_same_v<Value, uint64_t>) {
    SNF_CHECK(copy_->shape().merge == nullptr);
    if (get(key) >= limit) return false;
    update(key, delta);
    return true;
  }

  // The value as this unit knows it: the updates that all units made some time
  // ago, and its own up to now. Value{} if there is no such key.
  Value get(const Key& key) const {
    copy_->NoteRead();
    ValueWords value{};
    copy_->Read(WordsOf<kKeyWords>(key).data(), value.data());
    return FromWords<Value>(value.data());
  }
  // The merged updates of keys for which there was no room, that were erased or
  // that have expired.
  Value rest() const {
    copy_->NoteRead();
    ValueWords value{};
    copy_->ReadRest(value.data());
    return FromWords<Value>(value.data());
  }
  uint32_t size() const {
    copy_->NoteRead();
    return copy_->size();
  }
  // Calls visit(const Key&, const Value&) for each key, in no particular order.
  // For reports.
  template <typename Visit>
  void for_each(Visit visit) const {
    copy_->NoteRead();
    copy_->ForEach([&](const uint64_t* key, const uint64_t* value) {
      visit(FromWords<Key>(key), FromWords<Value>(value));
    });
  }

 private:
  friend class NetworkFunction;

  static constexpr uint32_t kKeyWords = (sizeof(Key) + 7) / 8;
  static constexpr uint32_t kValueWords = (sizeof(Value) + 7) / 8;
  using ValueWords = std::array<uint64_t, kValueWords>;

  explicit SharedTable(TableCopy& copy) : copy_(&copy) {}

  template <uint32_t kWords, typename T>
  static std::array<uint64_t, kWords> WordsOf(const T& value) {
    std::array<uint64_t, kWords> words;
    if constexpr (sizeof(T) % 8 != 0) words[kWords - 1] = 0;
    std::memcpy(words.data(), &value, sizeof value);
    return words;
  }
  template <typename T>
  static T FromWords(const uint64_t* words) {
    T value;
    // The cast is for types with member initialisers, which are not trivial.
    std::memcpy(static_cast<void*>(&value), words, sizeof value);
    return value;
  }

  template <typename Merge>
  static void MergeWords(uint64_t* value, const uint64_t* more) {
    Value typed = FromWords<Value>(value);
    Merge{}(typed, FromWords<Value>(more));
    std::memcpy(value, &typed, sizeof typed);
  }

  template <typename Condition>
  static bool CallCondition(const uint64_t* value) {
    return Condition{}(FromWords<Value>(value));
  }
  template <typename Hook>
  static void CallOnCondition(uint64_t* value) {
    Value typed = FromWords<Value>(value);
    Hook{}(typed);
    std::memcpy(value, &typed, sizeof typed);
  }

  template <typename Hook>
  static bool CallHook(uint64_t* value, uint64_t periods) {
    Value typed = FromWords<Value>(value);
    const bool stays = Hook{}(typed, periods);
    std::memcpy(value, &typed, sizeof typed);
    return stays;
  }

  template <typename Merge>
  static TableShape ShapeOf(std::string name, uint32_t max_entries,
                            TableReader reader, Nanos expires_after) {
    TableShape shape = {.name = std::move(name),
                        .key_bytes = sizeof(Key),
                        .value_bytes = sizeof(Value),
                        .max_entries = max_entries,
                        .for_reports = reader == TableReader::kReport,
                        .expires_after = expires_after};
    if constexpr (std::is_same_v<Merge, SumOfWords>) {
      static_assert(sizeof(Value) % 8 == 0,
                    "a sum is of 64-bit words; other values need a hook");
    } else {
      static_assert(std::is_empty_v<Merge>, "a hook captures nothing");
      shape.merge = MergeWords<Merge>;
    }
    return shape;
  }

  TableCopy* copy_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_SDK_SHARED_TABLE_H_
