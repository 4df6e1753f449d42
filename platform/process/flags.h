// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PROCESS_FLAGS_H_
#define SNF_PLATFORM_PROCESS_FLAGS_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"

namespace CLI {
class App;
}

namespace snf {

// Holds the flags and arguments of one command, on top of CLI11. A flag has a
// type with a unit, a range and a default, which its help shows; and can be
// printed back, so that a report can show the flags of its run. A bad value is
// refused with the flag, the value and the valid values. Owner-thread only.
class FlagSet {
 public:
  FlagSet();
  ~FlagSet();
  FlagSet(const FlagSet&) = delete;
  FlagSet& operator=(const FlagSet&) = delete;

  // Add arguments without a flag: one required value, or any number of values
  // from `least` on. As for flags, the bound variable must outlive the parsing.
  void Argument(const std::string& name, std::string& value);
  void Arguments(const std::string& name, std::vector<std::string>& values,
                 int least);

  // Puts the flags that are added from here on under this heading in the help.
  void Heading(std::string heading) { heading_ = std::move(heading); }
  // Makes the flags that are added from here on part of this section, which
  // Traits names. Classes that share a set tell their own flags by it.
  void Section(std::string section) { section_ = std::move(section); }

  // Properties of a flag besides its value, for code that writes the command
  // line again.
  struct Traits {
    std::string section{};
    bool is_repeated = false;    // may be named several times
    bool is_output = false;      // names an output, or what is printed there
    bool may_change = false;     // while the command runs
    bool is_of_command = false;  // says what to do: no file gives it a value
  };

  // The following add flags, and return the traits of the flag, to be changed
  // before the next flag is added. Bound variables hold the default. Ranges
  // include their ends. If `if_unset` is given, a rate of 0 means "not set";
  // `if_unset` says in the help what happens then.
  Traits& Duration(const std::string& name, Nanos& value, Nanos lowest,
                   Nanos highest, const std::string& help);
  // As Duration, but also takes "inf", which is Nanos::max().
  Traits& DurationOrInfinity(const std::string& name, Nanos& value,
                             Nanos lowest, const std::string& help);
  Traits& Bytes(const std::string& name, uint32_t& value, uint32_t lowest,
                uint32_t highest, const std::string& help);
  Traits& BitRate(const std::string& name, int64_t& value, int64_t lowest,
                  int64_t highest, const std::string& help,
                  const std::string& if_unset = "");
  // As BitRate, but also takes "none", which leaves the value and sets `none`.
  Traits& BitRateOrNone(const std::string& name, int64_t& value, bool& none,
                        int64_t lowest, int64_t highest,
                        const std::string& help);
  Traits& PacketRate(const std::string& name, int64_t& value, int64_t lowest,
                     int64_t highest, const std::string& help,
                     const std::string& if_unset);
  Traits& Count(const std::string& name, uint32_t& value, uint32_t lowest,
                uint32_t highest, const std::string& help);
  // Takes a port of TCP or UDP.
  Traits& Port(const std::string& name, uint16_t& value,
               const std::string& help);
  Traits& Number(const std::string& name, uint64_t& value,
                 const std::string& help);
  // Takes a decimal from 0 to 1, and keeps it as a multiple of 1/one.
  Traits& Fraction(const std::string& name, uint32_t& value, uint32_t one,
                   const std::string& help);
  // Takes one of the choices; `value` is the place of the chosen one. The help
  // gives each a line of its own.
  struct Meaning {
    std::string choice;
    std::string what;
  };
  Traits& Choice(const std::string& name, size_t& value,
                 const std::vector<Meaning>& meanings, const std::string& help);
  // As Choice with a type whose values count the choices from 0: an enum, or
  // bool.
  template <typename Value>
  requires(std::is_enum_v<Value> || std::same_as<Value, bool>) Traits& Choice(
      const std::string& name, Value& value,
      const std::vector<Meaning>& meanings, const std::string& help) {
    return AddChoice(
        name, meanings, help,
        [&value](size_t place) { value = static_cast<Value>(place); },
        [&value] { return static_cast<size_t>(value); });
  }
  // Takes any text but an empty one. The help explains some values.
  Traits& Text(const std::string& name, std::string& value,
               const std::string& type, const std::string& help,
               const std::vector<Meaning>& meanings = {});
  // Adds a flag whose text the caller parses and prints. The error of `parse`
  // names the bad part of the text.
  using Parse = std::function<absl::Status(const std::string&)>;
  using Print = std::function<std::string()>;
  // The help explains some values.
  Traits& Custom(const std::string& name, const std::string& type,
                 const std::string& help, Parse parse, Print print,
                 const std::vector<Meaning>& meanings = {});
  // As Custom, but may be named again and again: `parse` is called for each.
  Traits& Repeated(const std::string& name, const std::string& type,
                   const std::string& help, Parse parse, Print print);
  Traits& Switch(const std::string& name, bool& value, const std::string& help);
  // Adds a switch that asks a question instead of running the command; it is
  // not part of values().
  Traits& Question(const std::string& name, bool& asked,
                   const std::string& help);

  // Reads a command line, without the command's name, into the bound variables.
  // Returns false if it asks for help. Errors are InvalidArgument; an error of
  // a flag begins with the flag's name; "--name=" is one. Call once.
  absl::StatusOr<bool> ParseCommandLine(std::span<const std::string> arguments);

  // Sets a flag after parsing. Requires a known flag with !given(name), and
  // valid values. given(name) is true afterwards.
  void Give(const std::string& name, std::vector<std::string> values);

  // As Give, with a value that may be wrong, and called for each value of a
  // flag that may be repeated. InvalidArgument tells what is wrong, without the
  // flag's name; the flag is given also then.
  absl::Status TryGive(const std::string& name, const std::string& value);

  // Returns the command line that was parsed.
  const std::vector<std::string>& arguments() const { return arguments_; }

  // Returns true if the command line named the flag; false also if there is
  // none of that name.
  bool given(const std::string& name) const;

  // Returns the traits of a flag, or null if there is none of that name.
  const Traits* Find(std::string_view name) const;

  // Returns "--name=value", with the present value.
  std::string Printed(const std::string& name) const;

  // Returns the text of --help: usage, `about`, then every flag under its
  // heading with type, default and meaning, within 80 columns.
  std::string Help(const std::string& usage, const std::string& about) const;

  // Returns name and present value of every flag that has one, in the order of
  // adding.
  std::vector<std::pair<std::string, std::string>> values() const;

 private:
  struct Flag {
    std::string name;
    std::string type;  // "" for a switch or a question
    std::string heading;
    std::string help;
    std::string default_text;
    Print print;                         // "" if it has no value
    std::vector<Meaning> meanings = {};  // of a choice
    Traits traits = {};
  };
  Traits& AddChoice(const std::string& name,
                    const std::vector<Meaning>& meanings,
                    const std::string& help,
                    const std::function<void(size_t)>& set,
                    const std::function<size_t()>& get);
  Traits& Remember(const std::string& name, const std::string& type,
                   const std::string& help, Print print);

  const std::unique_ptr<CLI::App> app_;
  std::string heading_ = "Options";
  std::string section_;
  std::vector<Flag> flags_;
  std::vector<std::string> arguments_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_PROCESS_FLAGS_H_
