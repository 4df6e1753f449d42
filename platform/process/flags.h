// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PROCESS_FLAGS_H_
#define SNF_PLATFORM_PROCESS_FLAGS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
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
// type with a unit, a range and a default, which its help shows; and it can be
// printed back, so that a report can say with what it was made. A bad value is
// refused with the flag, the value and what is right. Owner-thread only.
class FlagSet {
 public:
  FlagSet();
  ~FlagSet();
  FlagSet(const FlagSet&) = delete;
  FlagSet& operator=(const FlagSet&) = delete;

  // Adds what stands on the command line without a flag: one value that must be
  // there, or any number of values, but at least so many. As of flags, the
  // bound variable must outlive the parsing.
  void Argument(const std::string& name, std::string& value);
  void Arguments(const std::string& name, std::vector<std::string>& values,
                 int least);

  // Puts the flags that are added from here on under this heading in the help.
  void Heading(std::string heading) { heading_ = std::move(heading); }

  // The following add flags. Bound variables hold the default. Ranges include
  // their ends. A rate of 0 with `if_unset`, which says what is done then, is
  // no value.
  void Duration(const std::string& name, Nanos& value, Nanos lowest,
                Nanos highest, const std::string& help);
  // As Duration, but also takes "inf", which is Nanos::max().
  void DurationOrInfinity(const std::string& name, Nanos& value, Nanos lowest,
                          const std::string& help);
  void Bytes(const std::string& name, uint32_t& value, uint32_t lowest,
             uint32_t highest, const std::string& help);
  void BitRate(const std::string& name, int64_t& value, int64_t lowest,
               int64_t highest, const std::string& help,
               const std::string& if_unset = "");
  // As BitRate, but also takes "none", which leaves the value and sets `none`.
  void BitRateOrNone(const std::string& name, int64_t& value, bool& none,
                     int64_t lowest, int64_t highest, const std::string& help);
  void PacketRate(const std::string& name, int64_t& value, int64_t lowest,
                  int64_t highest, const std::string& help,
                  const std::string& if_unset);
  void Count(const std::string& name, uint32_t& value, uint32_t lowest,
             uint32_t highest, const std::string& help);
  void Number(const std::string& name, uint64_t& value,
              const std::string& help);
  // Takes a decimal from 0 to 1, and keeps it as a multiple of 1/one.
  void Fraction(const std::string& name, uint32_t& value, uint32_t one,
                const std::string& help);
  // Takes one of the choices; `value` is the place of the chosen one. The help
  // gives each a line of its own.
  struct Meaning {
    std::string choice;
    std::string what;
  };
  void Choice(const std::string& name, size_t& value,
              const std::vector<Meaning>& meanings, const std::string& help);
  // Takes any text but an empty one. The help explains some values.
  void Text(const std::string& name, std::string& value,
            const std::string& type, const std::string& help,
            const std::vector<Meaning>& meanings = {});
  // Takes what the caller reads and prints. The error of `parse` says what is
  // wrong with which part of the text.
  using Parse = std::function<absl::Status(const std::string&)>;
  using Print = std::function<std::string()>;
  void Custom(const std::string& name, const std::string& type,
              const std::string& help, Parse parse, Print print);
  // As Custom, but may be named again and again: `parse` is called for each.
  void Repeated(const std::string& name, const std::string& type,
                const std::string& help, Parse parse, Print print);
  void Switch(const std::string& name, bool& value, const std::string& help);
  // Adds a switch that asks something instead of what the command does; it is
  // no part of values().
  void Question(const std::string& name, bool& asked, const std::string& help);

  // Reads a command line, without the command's name, into the bound variables.
  // Returns false if it asks for help. Errors are InvalidArgument, and those of
  // flags begin with the flag's name. Call once.
  absl::StatusOr<bool> ParseCommandLine(std::span<const std::string> arguments);

  // Gives a flag values as if the command line had named it, which it has not,
  // and which has been parsed. The flag must be there, and the values right.
  void Give(const std::string& name, std::vector<std::string> values);

  // Returns true if the command line named the flag; false also if there is
  // none of that name.
  bool given(const std::string& name) const;

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
  };
  void Remember(const std::string& name, const std::string& type,
                const std::string& help, Print print);

  const std::unique_ptr<CLI::App> app_;
  std::string heading_ = "Options";
  std::vector<Flag> flags_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_PROCESS_FLAGS_H_
