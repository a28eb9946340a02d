// SPDX-License-Identifier: Apache-2.0
#include "trireme/checkpoint/manifest.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <limits>

namespace trireme::checkpoint {
namespace {

constexpr std::int64_t kMostThreads = 1 << 20;
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

std::string entry_text(const std::string& name, const Entry& entry);
Entry read_entry(io::MapReader& map);

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

std::string to_json(const Manifest& manifest) {
  std::vector<std::string> ties, tensors;
  for (const auto& [tie, name] : manifest.ties)
    ties.push_back(
        concat("{\"tie\": ", io::json_text(tie), ", \"saved_as\": ", io::json_text(name), "}"));
  for (const auto& [name, entry] : manifest.tensors) tensors.push_back(entry_text(name, entry));
  return concat("{\"format\": \"trireme-checkpoint/1\",\n \"step\": ", manifest.step,
                ",\n \"data\": ", io::json_text(manifest.data),
                ",\n \"threads\": ", manifest.threads, ",\n \"ties\": [", join(ties, ", "),
                "],\n \"tensors\": [\n  ", join(tensors, ",\n  "), "\n ]}\n");
}

Manifest read_manifest(const io::Node& document) {
  io::MapReader map(document);
  map.required("format").choice({"trireme-checkpoint/1"});
  Manifest manifest;
  manifest.step = map.required("step").integer(0, kMost);
  manifest.data = map.required("data").text();
  manifest.threads = static_cast<int>(map.required("threads").integer(1, kMostThreads));
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
  map.finish();
  return manifest;
}

namespace {

std::string entry_text(const std::string& name, const Entry& entry) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : entry.sizes) sizes.push_back(concat(size));
  return concat("{\"name\": ", io::json_text(name), ", \"file\": ", io::json_text(entry.file),
                ", \"type\": ", io::json_text(entry.type), ", \"sizes\": [", join(sizes, ", "),
                "], \"offset\": ", entry.offset.count(), ", \"bytes\": ", entry.size.count(),
                ", \"digest\": ", io::json_text(entry.digest), "}");
}

Entry read_entry(io::MapReader& map) {
  Entry entry;
  const io::Node file = map.required("file");
  entry.file = file.text();
  if (entry.file.find('/') != std::string::npos)
    file.fail(concat("is ", file.found(), ", must be a file beside the manifest"));
  entry.type = map.required("type").text();
  for (const io::Node& size : map.required("sizes").list())
    entry.sizes.push_back(size.integer(0, kMost));
  entry.offset = map.required("offset").bytes();
  entry.size = map.required("bytes").bytes();
  entry.digest = map.required("digest").text();
  map.finish();
  return entry;
}

}  // namespace
}  // namespace trireme::checkpoint
