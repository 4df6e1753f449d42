// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPLAY_JSON_PLACES_H_
#define SNF_PLATFORM_REPLAY_JSON_PLACES_H_

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace snf {

// Where in a JSON text its members and elements are, so that what is wrong with
// one can be told as FILE:LINE:COLUMN. Built once; costs a pass over the text.
class JsonPlaces {
 public:
  JsonPlaces() = default;
  // The text must be JSON.
  explicit JsonPlaces(std::string_view text);

  // ":12:5", lines and columns (bytes) from 1: of the key of a member or the
  // begin of an element, by its path, such as "chain[2].text", or of the
  // innermost that there is of what it is in; empty for none. Names are in
  // snake_case or camelCase, here and in the text.
  std::string Of(std::string_view path) const;

  // The same of a byte of any text.
  static std::string OfByte(std::string_view text, size_t at);

 private:
  std::map<std::string, std::string> places_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_REPLAY_JSON_PLACES_H_
