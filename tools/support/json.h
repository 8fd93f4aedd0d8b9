#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ramcore::tools {

// JSON that programs below tools/ and tests/ write and read. nlohmann/json converts values to texts and texts to
// values; json.cc alone includes it, because it takes seconds to compile.

struct JsonMember;

/// A value of JSON: null, a boolean, a number, a string, an array or an object. Members of an object stay in the order
/// in which they were added or read.
class Json {
 public:
  /// What becomes of a string that is not UTF-8 when a text is made of it.
  enum class BadUtf8 : uint8_t {
    Throw,    ///< an exception of nlohmann/json
    Replace,  ///< U+FFFD in the place of what is wrong
  };

  Json();  ///< null
  Json(std::nullptr_t);
  Json(bool value);
  Json(int value);
  Json(unsigned value);
  Json(long value);
  Json(unsigned long value);
  Json(double value);
  Json(const char* value);
  Json(std::string value);
  Json(std::string_view value);
  Json(const std::vector<std::string>& values);     ///< an array
  Json(std::initializer_list<JsonMember> members);  ///< an object; names are not repeated

  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(Json other) noexcept;
  ~Json();

  /// An array with these elements.
  static Json array(std::initializer_list<Json> elements = {});
  /// An object without members.
  static Json object();

  // Building a value. null becomes the array or the object that a call needs; other kinds are an exception.

  /// Appends to an array. Returns the appended element; valid until another one is appended.
  Json& append(Json element);
  /// The member called `name`, which is null if it was not there; valid until another one is added.
  Json& operator[](const std::string& name);
  /// Adds the members of `object`, or replaces the values of those that are here.
  void update(const Json& object);

  // Reading a value.

  bool isObject() const { return std::holds_alternative<Members>(value_); }
  bool isString() const { return std::holds_alternative<std::string>(value_); }
  /// A whole number that is not negative, written without point and exponent.
  bool isUnsigned() const { return std::holds_alternative<uint64_t>(value_); }
  /// Whether it is an object with such a member.
  bool contains(const std::string& name) const { return find(name) != nullptr; }
  /// The elements of an array; an exception for other kinds.
  const std::vector<Json>& elements() const { return std::get<Elements>(value_); }
  /// The members of an object; an exception for other kinds. A name that the text repeats is there as often.
  const std::vector<JsonMember>& members() const { return std::get<Members>(value_); }

  // If several members have the same name, these functions take the last one. If there is none, or if a value is of
  // another kind, they throw an exception of nlohmann/json that says so.

  const Json& at(const std::string& name) const;
  std::string asString() const;
  uint64_t asUnsigned() const;
  int64_t asSigned() const;
  /// These return `otherwise` if there is no such member.
  std::string valueOf(const std::string& name, const std::string& otherwise) const;
  uint64_t valueOf(const std::string& name, uint64_t otherwise) const;

  /// @param indent_columns  for each level, one member or element a line; without it all is one line without spaces
  std::string dump(std::optional<unsigned> indent_columns = std::nullopt, BadUtf8 bad_utf8 = BadUtf8::Throw) const;
  /// Reads a text that is one value. Returns nothing if it is not.
  /// @param why  gets the reason then
  static std::optional<Json> parse(std::string_view text, std::string* why = nullptr);

 private:
  class Library;
  using Elements = std::vector<Json>;
  using Members = std::vector<JsonMember>;

  const Json* find(const std::string& name) const;
  void moveContainersTo(std::vector<Json>& there);

  std::variant<std::nullptr_t, bool, int64_t, uint64_t, double, std::string, Elements, Members> value_;
};

struct JsonMember {
  std::string name;
  Json value;
};

/// `text` as a string of JSON in ASCII, with quotes: other characters are escaped, wrong UTF-8 is replaced.
std::string quotedAscii(std::string_view text);

}  // namespace ramcore::tools
