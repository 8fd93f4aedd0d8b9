#include "tools/rcnic/analysis/sample.h"

#include <array>
#include <utility>

namespace ramcore::rcnic {
namespace {

constexpr std::array kOperations = {std::pair{Operation::Send, std::string_view("send")},
                                    std::pair{Operation::Write, std::string_view("write")},
                                    std::pair{Operation::Read, std::string_view("read")}};
constexpr std::array kModes = {std::pair{Mode::ZeroCopy, std::string_view("zero-copy")},
                               std::pair{Mode::CopyOut, std::string_view("copy-out")},
                               std::pair{Mode::Inline, std::string_view("inline")}};
constexpr std::array kLayouts = {std::pair{Layout::Scattered, std::string_view("scattered")},
                                 std::pair{Layout::Contiguous, std::string_view("contiguous")}};

template <typename Table, typename T>
std::string_view nameIn(const Table& table, T value) {
  for (const auto& [entry, name] : table) {
    if (entry == value) return name;
  }
  return "?";
}

template <typename T, typename Table>
std::optional<T> valueIn(const Table& table, std::string_view wanted) {
  for (const auto& [entry, name] : table) {
    if (name == wanted) return entry;
  }
  return std::nullopt;
}

}  // namespace

std::string_view nameOf(Operation operation) { return nameIn(kOperations, operation); }
std::string_view nameOf(Mode mode) { return nameIn(kModes, mode); }
std::string_view nameOf(Layout layout) { return nameIn(kLayouts, layout); }
std::optional<Operation> operationOf(std::string_view name) { return valueIn<Operation>(kOperations, name); }
std::optional<Mode> modeOf(std::string_view name) { return valueIn<Mode>(kModes, name); }
std::optional<Layout> layoutOf(std::string_view name) { return valueIn<Layout>(kLayouts, name); }

}  // namespace ramcore::rcnic
