#include "tools/support/json.h"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

namespace ramcore::tools {

/// What nlohmann/json does for a value.
class Json::Library {
 public:
  using Vendor = nlohmann::ordered_json;

  static Vendor from(const Json& json) {
    return std::visit(
        [](const auto& value) -> Vendor {
          using Kind = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<Kind, Elements>) {
            Vendor array = Vendor::array();
            for (const Json& element : value) array.push_back(from(element));
            return array;
          } else if constexpr (std::is_same_v<Kind, Members>) {
            Vendor object = Vendor::object();
            for (const JsonMember& member : value) object[member.name] = from(member.value);
            return object;
          } else {
            return value;
          }
        },
        json.value_);
  }

  /// A value of the same kind, without what an array or an object holds: enough for an error that says that the kind is
  /// wrong. from() goes as deep as the value does, and a value that was read may be deeper than the stack.
  static Vendor kindOf(const Json& json) {
    if (std::holds_alternative<Elements>(json.value_)) return Vendor::array();
    if (std::holds_alternative<Members>(json.value_)) return Vendor::object();
    return from(json);
  }

  template <typename Number>
  static Number number(const Json& json) {
    if (const auto* value = std::get_if<uint64_t>(&json.value_)) return static_cast<Number>(*value);
    if (const auto* value = std::get_if<int64_t>(&json.value_)) return static_cast<Number>(*value);
    return kindOf(json).get<Number>();
  }

  /// Builds a value from what the parser of nlohmann/json finds.
  class Builder {
   public:
    explicit Builder(Json& root) : root_(root) {}

    bool null() { return add(nullptr) != nullptr; }
    bool boolean(bool value) { return add(value) != nullptr; }
    bool number_integer(nlohmann::json::number_integer_t value) { return add(value) != nullptr; }
    bool number_unsigned(nlohmann::json::number_unsigned_t value) { return add(value) != nullptr; }
    bool number_float(nlohmann::json::number_float_t value, const std::string&) { return add(value) != nullptr; }
    bool string(std::string& value) { return add(std::move(value)) != nullptr; }
    bool binary(nlohmann::json::binary_t&) { return false; }  // texts have none
    bool start_array(size_t) { return open(Json::array()); }
    bool end_array() { return close(); }
    bool start_object(size_t) { return open(Json::object()); }
    bool key(std::string& name) {
      name_ = std::move(name);
      return true;
    }
    bool end_object() { return close(); }
    bool parse_error(size_t, const std::string&, const nlohmann::json::exception& problem) {
      why_ = problem.what();
      return false;
    }

    const std::string& why() const { return why_; }

   private:
    Json* add(Json value) {
      if (open_.empty()) {
        root_ = std::move(value);
        return &root_;
      }
      if (auto* elements = std::get_if<Elements>(&open_.back()->value_)) {
        return &elements->emplace_back(std::move(value));
      }
      auto& members = std::get<Members>(open_.back()->value_);
      return &members.emplace_back(JsonMember{.name = std::move(name_), .value = std::move(value)}).value;
    }
    bool open(Json container) {
      open_.push_back(add(std::move(container)));
      return true;
    }
    bool close() {
      open_.pop_back();
      return true;
    }

    Json& root_;
    std::vector<Json*> open_;  // containers, each in the one before it, which does not grow meanwhile
    std::string name_;         // of the next member
    std::string why_;
  };
};

Json::Json() : value_(nullptr) {}
Json::Json(std::nullptr_t) : value_(nullptr) {}
Json::Json(bool value) : value_(value) {}
Json::Json(int value) : value_(int64_t{value}) {}
Json::Json(unsigned value) : value_(uint64_t{value}) {}
Json::Json(long value) : value_(int64_t{value}) {}
Json::Json(unsigned long value) : value_(uint64_t{value}) {}
Json::Json(double value) : value_(value) {}
Json::Json(const char* value) : value_(std::string(value)) {}
Json::Json(std::string value) : value_(std::move(value)) {}
Json::Json(std::string_view value) : value_(std::string(value)) {}
Json::Json(const std::vector<std::string>& values) : value_(Elements(values.begin(), values.end())) {}
Json::Json(std::initializer_list<JsonMember> members) : value_(Members(members)) {}

Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept = default;

Json& Json::operator=(Json other) noexcept {
  value_.swap(other.value_);
  return *this;
}

// Without recursion: what was read may have more levels than the stack has room for.
Json::~Json() {
  std::vector<Json> waiting;
  moveContainersTo(waiting);
  while (!waiting.empty()) {
    Json last = std::move(waiting.back());
    waiting.pop_back();
    last.moveContainersTo(waiting);
  }
}

void Json::moveContainersTo(std::vector<Json>& there) {
  const auto move = [&there](Json& json) {
    const auto* elements = std::get_if<Elements>(&json.value_);
    const auto* members = std::get_if<Members>(&json.value_);
    if ((elements != nullptr && !elements->empty()) || (members != nullptr && !members->empty())) {
      there.push_back(std::move(json));
    }
  };
  if (auto* elements = std::get_if<Elements>(&value_)) {
    for (Json& element : *elements) move(element);
  } else if (auto* members = std::get_if<Members>(&value_)) {
    for (JsonMember& member : *members) move(member.value);
  }
}

Json Json::array(std::initializer_list<Json> elements) {
  Json array;
  array.value_ = Elements(elements);
  return array;
}

Json Json::object() {
  Json object;
  object.value_ = Members();
  return object;
}

Json& Json::append(Json element) {
  if (std::holds_alternative<std::nullptr_t>(value_)) value_ = Elements();
  return std::get<Elements>(value_).emplace_back(std::move(element));
}

Json& Json::operator[](const std::string& name) {
  if (std::holds_alternative<std::nullptr_t>(value_)) value_ = Members();
  auto& members = std::get<Members>(value_);
  for (JsonMember& member : members) {
    if (member.name == name) return member.value;
  }
  return members.emplace_back(JsonMember{.name = name, .value = {}}).value;
}

void Json::update(const Json& object) {
  for (const JsonMember& member : object.members()) (*this)[member.name] = member.value;
}

const Json* Json::find(const std::string& name) const {
  const auto* members = std::get_if<Members>(&value_);
  if (members == nullptr) return nullptr;
  for (auto member = members->rbegin(); member != members->rend(); ++member) {
    if (member->name == name) return &member->value;
  }
  return nullptr;
}

const Json& Json::at(const std::string& name) const {
  if (const Json* found = find(name)) return *found;
  static_cast<void>(Library::kindOf(*this).at(name));  // throws
  std::abort();
}

std::string Json::asString() const {
  if (const auto* text = std::get_if<std::string>(&value_)) return *text;
  return Library::kindOf(*this).get<std::string>();  // throws
}

uint64_t Json::asUnsigned() const { return Library::number<uint64_t>(*this); }

int64_t Json::asSigned() const { return Library::number<int64_t>(*this); }

std::string Json::valueOf(const std::string& name, const std::string& otherwise) const {
  const Json* found = find(name);
  return found == nullptr ? otherwise : found->asString();
}

uint64_t Json::valueOf(const std::string& name, uint64_t otherwise) const {
  const Json* found = find(name);
  return found == nullptr ? otherwise : found->asUnsigned();
}

std::string Json::dump(std::optional<unsigned> indent_columns, BadUtf8 bad_utf8) const {
  using Handler = Library::Vendor::error_handler_t;
  return Library::from(*this).dump(indent_columns ? static_cast<int>(*indent_columns) : -1, ' ', false,
                                   bad_utf8 == BadUtf8::Replace ? Handler::replace : Handler::strict);
}

std::optional<Json> Json::parse(std::string_view text, std::string* why) {
  Json root;
  Library::Builder builder(root);
  if (nlohmann::json::sax_parse(text, &builder)) return root;
  if (why != nullptr) *why = builder.why();
  return std::nullopt;
}

std::string quotedAscii(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

}  // namespace ramcore::tools
