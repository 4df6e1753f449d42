// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PROCESS_FLAGS_H_
#define SNF_PLATFORM_PROCESS_FLAGS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/time.h"

namespace CLI {
class App;
}

namespace snf {

// The flags of one command, on top of CLI11: each has a type with a unit, a
// range and a default that its help shows, and each can be printed back, so
// that a report can say with what it was made. A bad value is refused with the
// flag, the value and what is right.
class FlagSet {
 public:
  // `app` must outlive the set, and each bound variable the parsing.
  explicit FlagSet(CLI::App& app) : app_(app) {}

  // Flags added from here on stand under this heading in the help.
  void Heading(std::string heading) { heading_ = std::move(heading); }

  // Bound variables hold the default. Ranges include their ends. A rate of 0
  // with `if_unset`, which says what is done then, is no value.
  void Duration(const std::string& name, Nanos& value, Nanos lowest,
                Nanos highest, const std::string& help);
  // Also takes "inf", which is Nanos::max().
  void DurationOrInfinity(const std::string& name, Nanos& value, Nanos lowest,
                          const std::string& help);
  void Bytes(const std::string& name, uint32_t& value, uint32_t lowest,
             uint32_t highest, const std::string& help);
  void BitRate(const std::string& name, int64_t& value, int64_t lowest,
               int64_t highest, const std::string& help,
               const std::string& if_unset = "");
  // Also takes "none", which leaves the value and sets `none`.
  void BitRateOrNone(const std::string& name, int64_t& value, bool& none,
                     int64_t lowest, int64_t highest, const std::string& help);
  void Count(const std::string& name, uint32_t& value, uint32_t lowest,
             uint32_t highest, const std::string& help);
  void Number(const std::string& name, uint64_t& value,
              const std::string& help);
  // A decimal from 0 to 1, kept as a multiple of 1/one.
  void Fraction(const std::string& name, uint32_t& value, uint32_t one,
                const std::string& help);
  // One of the choices; `value` is the place of the chosen one. The help gives
  // each a line of its own.
  struct Meaning {
    std::string choice;
    std::string what;
  };
  void Choice(const std::string& name, size_t& value,
              const std::vector<Meaning>& meanings, const std::string& help);
  // Text of which the help explains some values.
  void Text(const std::string& name, std::string& value,
            const std::string& type, const std::string& help,
            const std::vector<Meaning>& meanings = {});
  // One that the caller reads and prints: the error of `parse` says what is
  // wrong with which part of the text.
  using Parse = std::function<absl::Status(const std::string&)>;
  using Print = std::function<std::string()>;
  void Custom(const std::string& name, const std::string& type,
              const std::string& help, Parse parse, Print print);
  void Switch(const std::string& name, bool& value, const std::string& help);

  // Whether the command line named the flag.
  bool given(const std::string& name) const;

  // "--name=value", with the present value.
  std::string Printed(const std::string& name) const;

  // The text of --help: usage, `about`, then every flag under its heading with
  // type, default and meaning, within 80 columns.
  std::string Help(const std::string& usage, const std::string& about) const;

  // Name and present value of every flag that has one, in the order of adding.
  std::vector<std::pair<std::string, std::string>> values() const;

 private:
  struct Flag {
    std::string name;
    std::string type;  // "" for a switch
    std::string heading;
    std::string help;
    std::string default_text;
    Print print;                         // "" if it has no value
    std::vector<Meaning> meanings = {};  // of a choice
  };
  CLI::App& app_;
  std::string heading_ = "Options";
  std::vector<Flag> flags_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_PROCESS_FLAGS_H_
