// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_CONTROL_CONTROL_TEXT_H_
#define SNF_PLATFORM_CONTROL_CONTROL_TEXT_H_

#include <google/protobuf/message.h>

#include <string>

#include "proto/control.pb.h"

namespace snf {

// What the control service answers, for people, in lines, and as JSON: an
// object of all fields by their names, on one line. Pure functions.
std::string TextOf(const proto::StatusReply& reply);  // of one, or of several
std::string TextOf(const proto::UnitsReply& reply);
std::string TextOf(const proto::FlowsReply& reply);
std::string TextOf(const proto::RulesReply& reply);
std::string TextOf(const proto::SetReply& reply);
std::string JsonOf(const google::protobuf::Message& message);

}  // namespace snf

#endif  // SNF_PLATFORM_CONTROL_CONTROL_TEXT_H_
