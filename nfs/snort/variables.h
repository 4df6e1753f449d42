// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_SNORT_VARIABLES_H_
#define SNF_NFS_SNORT_VARIABLES_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nfs/snort/interval_set.h"

namespace snf::snort {

// The variables of rule files (ipvar, portvar, var), and the lists of addresses
// and ports that name them. Thread-compatible.
//
// A list is "10.0.0.0/8", "[10.0.0.0/8,!10.1.0.0/16,$OTHER]", "!$HOME_NET" or
// "any"; of ports "80", "1024:", "[80,8000:8080,!8001]". A list without parts
// that are not negated begins with all. An address of IPv4 is not one of IPv6.
class Variables {
 public:
  // Has the variables of Snort's usual configuration: HOME_NET and EXTERNAL_NET
  // are any, servers are HOME_NET, and so on.
  Variables();

  // Defines or replaces a variable. The text is read when the variable is used,
  // so it may name variables that are defined later.
  void Set(const std::string& name, const std::string& text);
  // As Set, and later calls of Set for this name have no effect.
  void Fix(const std::string& name, const std::string& text);

  // InvalidArgument says what is wrong; OutOfRange that nothing is left, as of
  // "!any". Results are kept, so that rules share them.
  absl::StatusOr<std::shared_ptr<const AddressSet>> Addresses(
      std::string_view list);
  absl::StatusOr<std::shared_ptr<const PortSet>> Ports(std::string_view list);

 private:
  struct Variable {
    std::string text;
    bool is_fixed = false;
  };
  template <typename Set, typename Leaf>
  absl::StatusOr<Set> Read(std::string_view list, int depth, Leaf leaf) const;

  std::map<std::string, Variable, std::less<>> variables_;
  std::map<std::string, std::shared_ptr<const AddressSet>, std::less<>>
      addresses_;
  std::map<std::string, std::shared_ptr<const PortSet>, std::less<>> ports_;
};

}  // namespace snf::snort

#endif  // SNF_NFS_SNORT_VARIABLES_H_
