// SPDX-License-Identifier: Apache-2.0
#include <google/protobuf/descriptor.h>

#include <nlohmann/json.hpp>
#include <string>

#include "platform/control/control_text.h"

namespace snf {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Json = nlohmann::ordered_json;

Json ToJson(const Message& message);

// One value of a field; `index` is -1 where the field is not repeated.
Json ValueOf(const Message& message, const FieldDescriptor& field, int index) {
  const Reflection& r = *message.GetReflection();
  const FieldDescriptor* const f = &field;
  const bool one = index < 0;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return one ? r.GetBool(message, f) : r.GetRepeatedBool(message, f, index);
    case FieldDescriptor::CPPTYPE_INT32:
      return one ? r.GetInt32(message, f)
                 : r.GetRepeatedInt32(message, f, index);
    case FieldDescriptor::CPPTYPE_UINT32:
      return one ? r.GetUInt32(message, f)
                 : r.GetRepeatedUInt32(message, f, index);
    case FieldDescriptor::CPPTYPE_INT64:
      return one ? r.GetInt64(message, f)
                 : r.GetRepeatedInt64(message, f, index);
    case FieldDescriptor::CPPTYPE_UINT64:
      return one ? r.GetUInt64(message, f)
                 : r.GetRepeatedUInt64(message, f, index);
    case FieldDescriptor::CPPTYPE_STRING:
      return one ? r.GetString(message, f)
                 : r.GetRepeatedString(message, f, index);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ToJson(one ? r.GetMessage(message, f)
                        : r.GetRepeatedMessage(message, f, index));
    default:
      return nullptr;  // the service has no others
  }
}

// A map becomes an object, whose keys are sorted.
Json MapOf(const Message& message, const FieldDescriptor& field) {
  const Reflection& r = *message.GetReflection();
  std::map<std::string, Json> sorted;
  for (int i = 0; i < r.FieldSize(message, &field); ++i) {
    const Message& entry = r.GetRepeatedMessage(message, &field, i);
    const auto* const type = entry.GetDescriptor();
    sorted[entry.GetReflection()->GetString(entry, type->map_key())] =
        ValueOf(entry, *type->map_value(), -1);
  }
  return Json(sorted);
}

Json ToJson(const Message& message) {
  Json object = Json::object();
  const Reflection& r = *message.GetReflection();
  const auto& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    Json& to = object[field.name()];
    if (field.is_map()) {
      to = MapOf(message, field);
    } else if (field.is_repeated()) {
      to = Json::array();
      for (int n = 0; n < r.FieldSize(message, &field); ++n) {
        to.push_back(ValueOf(message, field, n));
      }
    } else if (field.has_presence() && !r.HasField(message, &field)) {
      to = nullptr;
    } else {
      to = ValueOf(message, field, -1);
    }
  }
  return object;
}

}  // namespace

std::string JsonOf(const Message& message) {
  return ToJson(message).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace snf
