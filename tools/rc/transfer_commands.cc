#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/hash.h"
#include "tools/rc/commands.h"
#include "tools/rc/importer.h"
#include "tools/rc/line_reader.h"
#include "tools/rc/ndjson.h"
#include "tools/rc/progress.h"
#include "tools/support/command_line.h"
#include "tools/support/standard_output.h"

namespace ramcore::rc {
namespace {

// The longest key and value with every byte written as \u00XX, and the rest of the line.
constexpr size_t kLineBytesMax = 6 * (kKeyBytesLimit + kValueBytesLimit) + 4096;

struct TransferValues {
  std::string table;
  std::string file = "-";
  uint32_t batch = 256;
  uint32_t outstanding = 16;
  uint64_t limit = 0;
  bool quiet = false;
};

uint64_t sizeOf(const std::string& file) {
  struct stat info{};
  return file != "-" && ::stat(file.c_str(), &info) == 0 && S_ISREG(info.st_mode) ? static_cast<uint64_t>(info.st_size)
                                                                                  : 0;
}

Failure cannotOpen(const std::string& file, const char* remedy) {
  return {Status::IoError, "cannot open " + file + ": " + std::strerror(errno) + "; " + remedy};
}

/// The input of an import, closed at the end.
class Input {
 public:
  explicit Input(const std::string& file)
      : fd_(file == "-" ? STDIN_FILENO : ::open(file.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~Input() {
    if (fd_ > STDIN_FILENO) ::close(fd_);
  }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// What is wrong with a line that could not be read.
Failure cannotRead(LineReader::Next why, const std::string& where) {
  if (why == LineReader::Next::TooLong) {
    return {Status::TooLarge, where + " is longer than " + std::to_string(kLineBytesMax) +
                                  " bytes; no key and value within the limits need that: is it NDJSON?"};
  }
  return {Status::IoError,
          "cannot read " + where + ": " + std::strerror(errno) +
              "; objects before it may have been written; give a readable file and import all of it again"};
}

// True for nothing but spaces, tabs and carriage returns: what editors leave between lines, and what is left of the
// line ends of other systems.
bool isBlank(const std::string& line) { return line.find_first_not_of(" \t\r") == std::string::npos; }

int import(Session& session, const TransferValues& values) {
  const auto table = session.table(values.table);
  if (!table) return session.fail(table.error());
  const Input in(values.file);
  if (in.fd() < 0) return session.fail(cannotOpen(values.file, "give a readable file, or - for stdin"));
  LineReader lines(in.fd(), kLineBytesMax);
  Progress progress("import", values.quiet);
  const auto total_bytes = static_cast<double>(sizeOf(values.file));
  Importer importer(**session.client(),
                    {.table = *table, .batch_objects_max = values.batch, .batches_max = values.outstanding});
  const std::string file = values.file == "-" ? "stdin" : values.file;
  std::string line;
  uint64_t line_number = 0;
  uint64_t bytes = 0;
  std::optional<Failure> wrong;
  while (importer.firstFailure().status == Status::Ok) {
    ++line_number;
    const auto where = [&] { return file + " line " + std::to_string(line_number); };
    const LineReader::Next next = lines.next(line);
    if (next == LineReader::Next::End) break;
    if (next != LineReader::Next::Line) {
      wrong = cannotRead(next, where());
      break;
    }
    bytes += line.size() + 1;
    if (isBlank(line)) continue;
    Outcome<Object> object = fromLine(line);
    if (!object) {
      wrong = Failure{Status::BadRequest, where() + ": " + object.error().message +
                                              "; a line is {\"key\":...,\"value\":...} or with key64, value64"};
      break;
    }
    importer.add(std::move(object).value(), line_number);
    progress.update(importer.written(), bytes,
                    total_bytes > 0 ? static_cast<double>(bytes) / total_bytes : Progress::kUnknown);
  }
  importer.finish();
  progress.finish(importer.written(), bytes, !wrong && importer.failed() == 0);
  if (importer.failed() != 0) {
    session.fail(importer.firstFailure().status, "table '" + values.table + "', " + std::to_string(importer.failed()) +
                                                     " objects not written (" + file + " line " +
                                                     std::to_string(importer.firstFailure().line) +
                                                     (importer.failed() == 1 ? ")" : " and others)"));
    return tools::kExitPartial;
  }
  if (wrong) return session.fail(*wrong);
  return tools::kExitOk;
}

int exportTable(Session& session, const TransferValues& values) {
  const auto table = session.table(values.table);
  if (!table) return session.fail(table.error());
  std::FILE* out = values.file == "-" ? stdout : std::fopen(values.file.c_str(), "wb");
  if (out == nullptr) return session.fail(cannotOpen(values.file, "give a file that can be written, or - for stdout"));
  Progress progress("export", values.quiet);
  uint64_t objects = 0;
  uint64_t bytes = 0;
  int error = 0;  // of writing
  Scan scan = (*session.client())->scan(*table);
  for (const Object& object : scan) {
    const std::string line = toLine(object) + "\n";
    if (std::fwrite(line.data(), 1, line.size(), out) != line.size()) {
      error = errno;
      break;
    }
    ++objects;
    bytes += line.size();
    // Objects come in the order of the hashes of their keys, which are spread evenly.
    const KeyHash hash = hashKey(TableId(table->id), std::as_bytes(std::span(object.key)));
    progress.update(objects, bytes, static_cast<double>(hash) * 0x1p-64);
  }
  if ((values.file == "-" ? std::fflush(out) : std::fclose(out)) != 0 && error == 0) error = errno;
  progress.finish(objects, bytes, error == 0 && scan.status() == Status::Ok);
  if (error != 0) {
    return session.fail(Failure{Status::IoError, "cannot write " + (values.file == "-" ? "the output" : values.file) +
                                                     ": " + std::strerror(error) + "; check whether there is room"});
  }
  if (scan.status() != Status::Ok) return session.fail(scan.status(), "table '" + values.table + "'");
  return tools::kExitOk;
}

// Bytes as people read them: what cannot be printed is escaped, and long values are cut.
std::string shown(const std::string& bytes, size_t bytes_max) {
  std::string out;
  for (const char c : bytes.substr(0, bytes_max)) {
    const auto code = static_cast<uint8_t>(c);
    if (code >= 0x20 && code != 0x7F && (code < 0x80 || isUtf8(bytes))) {
      out += c;
    } else {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\x%02x", code);
      out += escaped;
    }
  }
  return bytes.size() > bytes_max ? out + "..." : out;
}

int scanTable(Session& session, const TransferValues& values) {
  const auto table = session.table(values.table);
  if (!table) return session.fail(table.error());
  uint64_t objects = 0;
  Scan scan = (*session.client())->scan(*table);
  for (const Object& object : scan) {
    if (tools::isOutputLost() || (values.limit != 0 && objects == values.limit)) break;
    ++objects;
    std::printf("%s\t%llu\t%s\n", shown(object.key, 200).c_str(), static_cast<unsigned long long>(object.version),
                shown(object.value, 60).c_str());
  }
  if (scan.status() != Status::Ok) return session.fail(scan.status(), "table '" + values.table + "'");
  return tools::kExitOk;
}

}  // namespace

void addTransferCommands(tools::Command& app, Session& session, int& exit_code) {
  auto values = std::make_shared<TransferValues>();
  tools::Command command = app.addCommand("scan", "Prints the objects of a table: key, version, start of the value");
  command.addOption("TABLE", values->table, "Name of the table").required();
  command.addOption("--limit", values->limit, "Stop after this many objects; 0: all")
      .showDefault()
      .check(tools::wholeNumber());
  command.onGiven([&, values] { exit_code = scanTable(session, *values); });

  command = app.addCommand("import", "Writes objects from lines of JSON; versions in them are ignored");
  command.addOption("TABLE", values->table, "Name of the table").required();
  command.addOption("FILE", values->file, "File to read, - for stdin").showDefault();
  command.addOption("--batch", values->batch, "Objects written together, at most").showDefault().inRange(1U, 4096U);
  command.addOption("--outstanding", values->outstanding, "Batches in flight at the same time")
      .showDefault()
      .inRange(1U, 256U);
  command.addFlag("--quiet", values->quiet, "No progress on stderr");
  command.onGiven([&, values] { exit_code = import(session, *values); });

  command = app.addCommand("export", "Writes the objects of a table as lines of JSON");
  command.addOption("TABLE", values->table, "Name of the table").required();
  command.addOption("FILE", values->file, "File to write, - for stdout").showDefault();
  command.addFlag("--quiet", values->quiet, "No progress on stderr");
  command.onGiven([&, values] { exit_code = exportTable(session, *values); });
}

}  // namespace ramcore::rc
