// SPDX-License-Identifier: Apache-2.0
#include "trireme/checkpoint/manifest.h"

#include "trireme/core/digest.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <limits>

namespace trireme::checkpoint {
namespace {

constexpr std::int64_t kMostThreads = 1 << 20;
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

/// All of it except its digest and the last brace.
std::string content_text(const Manifest& manifest);
std::string entry_text(const std::string& name, const Entry& entry);
Entry read_entry(io::MapReader& map);
std::vector<std::int64_t> read_sizes(const io::Node& node);
std::string sizes_text(const std::vector<std::int64_t>& sizes);
std::int64_t numbers_of(const std::vector<std::int64_t>& sizes);

}  // namespace

void merge(Manifest& into, const Manifest& part) {
  into.ties.insert(part.ties.begin(), part.ties.end());
  for (const auto& [name, entry] : part.tensors) {
    if (!into.tensors.emplace(name, entry).second)
      throw InputError(concat("two tensors of this model are called '", name,
                              "': give its layers and their parameters names of their own, so that "
                              "a checkpoint can tell them apart"));
  }
}

std::map<std::string, Joined> joined(const Manifest& manifest) {
  std::map<std::string, Joined> tensors;
  std::map<std::string, std::map<std::int64_t, std::string>> parts;  // by their first numbers
  for (const auto& [name, entry] : manifest.tensors) {
    const std::string& whole = entry.part_of ? entry.part_of->name : name;
    const std::vector<std::int64_t>& sizes = entry.part_of ? entry.part_of->sizes : entry.sizes;
    const auto [tensor, is_new] = tensors.try_emplace(
        whole,
        Joined{
            .type = entry.type, .sizes = sizes, .entries = {}, .is_constant = entry.is_constant});
    const std::int64_t begin = entry.part_of ? entry.part_of->begin : 0;
    if (tensor->second.type != entry.type || tensor->second.sizes != sizes ||
        !parts[whole].emplace(begin, name).second)
      throw InputError(concat("tensor '", whole, "' has parts that do not belong together: '", name,
                              "' and another"));
  }
  for (auto& [whole, tensor] : tensors) {
    std::int64_t next = 0;
    for (const auto& [begin, name] : parts.at(whole)) {
      if (begin != next)
        throw InputError(concat("tensor '", whole, "' lacks its numbers from ", next, " to ", begin,
                                ": part '", name, "' begins there"));
      next += numbers_of(manifest.tensors.at(name).sizes);
      tensor.entries.push_back(name);
    }
    if (next != numbers_of(tensor.sizes))
      throw InputError(concat("tensor '", whole, "' has ", numbers_of(tensor.sizes),
                              " numbers, its parts have ", next));
  }
  return tensors;
}

std::string to_json(const Manifest& manifest) {
  const std::string content = content_text(manifest);
  return concat(content, ",\n \"digest\": ", io::json_text(digest(content)), "}\n");
}

Manifest read_manifest(const io::Node& document) {
  io::MapReader map(document);
  map.required("format").choice({"trireme-checkpoint/1"});
  Manifest manifest;
  manifest.step = map.required("step").integer(0, kMost);
  manifest.data = map.required("data").text();
  manifest.threads = static_cast<int>(map.required("threads").integer(1, kMostThreads));
  // Manifests of earlier versions have none of these three.
  if (const auto job = map.optional("job")) manifest.job = job->text();
  if (const auto device = map.optional("device")) manifest.device = device->text();
  if (const auto vectors = map.optional("vectors")) manifest.vectors = vectors->text();
  for (const io::Node& node : map.required("ties").list()) {
    io::MapReader tie(node);
    manifest.ties[tie.required("tie").text()] = tie.required("saved_as").text();
    tie.finish();
  }
  for (const io::Node& node : map.required("tensors").list()) {
    io::MapReader entry(node);
    const std::string name = entry.required("name").text();
    if (!manifest.tensors.emplace(name, read_entry(entry)).second)
      node.fail(concat("names '", name, "' a second time"));
  }
  // Manifests of earlier versions have none; with a digest of the job there is always one.
  const auto written = manifest.job.empty() ? map.optional("digest") : map.required("digest");
  map.finish();
  if (written && written->text() != digest(content_text(manifest)))
    written->fail("does not match what is before it: the file was changed");
  return manifest;
}

namespace {

std::string content_text(const Manifest& manifest) {
  std::vector<std::string> ties, tensors;
  for (const auto& [tie, name] : manifest.ties)
    ties.push_back(
        concat("{\"tie\": ", io::json_text(tie), ", \"saved_as\": ", io::json_text(name), "}"));
  for (const auto& [name, entry] : manifest.tensors) tensors.push_back(entry_text(name, entry));
  std::string more;
  if (!manifest.job.empty()) more += concat(",\n \"job\": ", io::json_text(manifest.job));
  if (!manifest.device.empty()) more += concat(",\n \"device\": ", io::json_text(manifest.device));
  if (!manifest.vectors.empty())
    more += concat(",\n \"vectors\": ", io::json_text(manifest.vectors));
  return concat("{\"format\": \"trireme-checkpoint/1\",\n \"step\": ", manifest.step,
                ",\n \"data\": ", io::json_text(manifest.data),
                ",\n \"threads\": ", manifest.threads, more, ",\n \"ties\": [", join(ties, ", "),
                "],\n \"tensors\": [\n  ", join(tensors, ",\n  "), "\n ]");
}

std::string sizes_text(const std::vector<std::int64_t>& sizes) {
  std::vector<std::string> texts;
  for (const std::int64_t size : sizes) texts.push_back(concat(size));
  return concat("[", join(texts, ", "), "]");
}

std::int64_t numbers_of(const std::vector<std::int64_t>& sizes) {
  std::int64_t numbers = 1;
  for (const std::int64_t size : sizes)
    if (__builtin_mul_overflow(numbers, size, &numbers)) return -1;
  return numbers;
}

std::string entry_text(const std::string& name, const Entry& entry) {
  std::string more;
  if (entry.part_of)
    more = concat(", \"part_of\": {\"name\": ", io::json_text(entry.part_of->name),
                  ", \"sizes\": ", sizes_text(entry.part_of->sizes),
                  ", \"begin\": ", entry.part_of->begin, "}");
  if (entry.is_constant) more += ", \"constant\": true";
  return concat("{\"name\": ", io::json_text(name), ", \"file\": ", io::json_text(entry.file),
                ", \"type\": ", io::json_text(entry.type), ", \"sizes\": ", sizes_text(entry.sizes),
                ", \"offset\": ", entry.offset.count(), ", \"bytes\": ", entry.size.count(),
                ", \"digest\": ", io::json_text(entry.digest), more, "}");
}

std::vector<std::int64_t> read_sizes(const io::Node& node) {
  std::vector<std::int64_t> sizes;
  for (const io::Node& size : node.list()) sizes.push_back(size.integer(0, kMost));
  return sizes;
}

Entry read_entry(io::MapReader& map) {
  Entry entry;
  const io::Node file = map.required("file");
  entry.file = file.text();
  if (entry.file.find('/') != std::string::npos)
    file.fail(concat("is ", file.found(), ", must be a file next to the manifest"));
  entry.type = map.required("type").text();
  entry.sizes = read_sizes(map.required("sizes"));
  entry.offset = map.required("offset").bytes();
  entry.size = map.required("bytes").bytes();
  entry.digest = map.required("digest").text();
  if (const auto node = map.optional("part_of")) {
    io::MapReader part(*node);
    entry.part_of = {.name = part.required("name").text(),
                     .sizes = read_sizes(part.required("sizes")),
                     .begin = part.required("begin").integer(0, kMost)};
    part.finish();
  }
  if (const auto constant = map.optional("constant")) entry.is_constant = constant->boolean();
  map.finish();
  return entry;
}

}  // namespace
}  // namespace trireme::checkpoint
