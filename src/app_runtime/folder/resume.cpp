// SPDX-License-Identifier: Apache-2.0
#include "folder/resume.h"

#include "trireme/checkpoint/store.h"
#include "trireme/comm/channel.h"
#include "trireme/comm/heartbeat.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/core/visible.h"
#include "trireme/io/node.h"
#include "trireme/record/summary.h"

#include <ATen/Version.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace trireme::app {
namespace {

namespace fs = std::filesystem;

/// Keys of these sections decide a run's numbers, with few exceptions.
const std::vector<std::string> kSections{"model", "data", "train"};
const std::set<std::string> kWithoutEffect{"train.validate_every", "train.validation_batches"};
const std::string kMicroBatch = "train.micro_batch", kOptimizer = "train.optimizer.kind";

/// Rank 0's search.
std::optional<Resumption> found_by(const config::JobSpec& job, const config::LoadOptions& options,
                                   const std::string& data, const ranks::RankContext& context,
                                   std::ostream& out);
/// Whether the run in the folder has nothing left to train. Throws InputError that says what to do
/// where its summary cannot be read.
bool has_completed(const fs::path& run);
/// What decides a run's numbers, by keys: "train.batch" is "16".
using Numbers = std::map<std::string, std::string>;
Numbers numbers_of(const io::Node& job);
/// What a checkpoint has in addition to its tensors.
struct Header {
  Numbers job;
  int micro_batch = 1, replicas = 0;  ///< as in Resumption
  checkpoint::Manifest manifest;
};
/// Throws InputError that says what to do where it cannot be read, is not a resolved job, is of
/// another step than its name says, or where files are truncated.
Header header_of(const checkpoint::Found& found, const config::LoadOptions& options);
/// Prints notes to `out` where later steps will compute differently than `there`, as described by
/// `here`.
void note_arithmetic(const checkpoint::Manifest& there, const checkpoint::Manifest& here,
                     std::ostream& out);
/// The largest size up to `most` of which whole micro-batches make up a replica's share.
int largest_size(int share, int most);
/// "train.batch: 16, there 32", one for each difference.
std::vector<std::string> differences(Numbers here, const Numbers& there);

/// The scalars below `node` by their keys.
void flatten(const io::Node& node, const std::string& key, Numbers& into) {
  switch (node.kind()) {
    case io::Node::Kind::kMap:
      for (const auto& [name, value] : node.entries()) flatten(value, concat(key, '.', name), into);
      return;
    case io::Node::Kind::kList: {
      int number = 0;
      for (const io::Node& value : node.list())
        flatten(value, concat(key, '[', number++, ']'), into);
      return;
    }
    case io::Node::Kind::kScalar:
    case io::Node::Kind::kNull:
      into[key] = node.kind() == io::Node::Kind::kNull ? "empty" : node.text();
  }
}

}  // namespace

std::optional<Resumption> resumption_of(const config::JobSpec& job,
                                        const config::LoadOptions& options, const std::string& data,
                                        const ranks::RankContext& context, std::ostream& out) {
  std::optional<Resumption> found;
  const auto look = [&] {
    if (context.channel.rank() == 0) found = found_by(job, options, data, context, out);
  };
  comm::run_with_heartbeat(context.channel, look, "look for a checkpoint");
  struct Numbers {
    bool is_found = false;
    std::int64_t step = 0;
    int micro_batch = 1, replicas = 0;
  };
  const std::vector<int> all = comm::everyone(context.channel);
  const Numbers mine =
      found ? Numbers{true, found->step, found->micro_batch, found->replicas} : Numbers{};
  const Numbers numbers = comm::broadcast(context.channel, all, mine, "what rank 0 found");
  if (!numbers.is_found) return std::nullopt;
  const std::string folder =
      comm::broadcast(context.channel, all, found ? found->checkpoint.string() : "",
                      "checkpoint that rank 0 found");
  return Resumption{.checkpoint = folder,
                    .step = numbers.step,
                    .micro_batch = numbers.micro_batch,
                    .replicas = numbers.replicas};
}

config::JobSpec with_saved_size(const config::JobSpec& job, const Resumption& from) {
  if (job.train.micro_batch) return job;
  config::JobSpec sized = job;
  sized.train.micro_batch = from.micro_batch;
  const int batch = job.train.batch, replicas = job.pipeline.replicas.value_or(1);
  const auto unit_of = [&](int count) { return std::int64_t{from.micro_batch} * count; };
  // The job was checked when it was read, except for what depends on this size.
  if (batch % unit_of(replicas) == 0) return sized;
  const bool went_before = from.replicas > 0 && batch % unit_of(from.replicas) == 0;
  job.fail(
      "train.micro_batch",
      concat("is auto, which takes ", from.micro_batch, ", the size that the steps of ",
             from.checkpoint.string(), " had, but train.batch ", batch,
             " must be a multiple of micro_batch x pipeline.replicas = ", unit_of(replicas),
             ": set it to ", largest_size(batch / replicas, from.micro_batch),
             " with checkpoint.resume: must",
             went_before ? concat(", or pipeline.replicas to ", from.replicas, " as before") : ""));
}

void note_replicas(const config::JobSpec& job, const Resumption& from, std::ostream& out) {
  const int here = job.pipeline.replicas.value();
  if (from.replicas != 0 && from.replicas != here)
    out << "note: not as in the checkpoint: replicas: " << here << ", there " << from.replicas
        << "; numbers may differ in their last bits, a validation loss by more, because each "
           "replica takes micro-batches of its own for it\n";
}

namespace {

std::optional<Resumption> found_by(const config::JobSpec& job, const config::LoadOptions& options,
                                   const std::string& data, const ranks::RankContext& context,
                                   std::ostream& out) {
  const bool must = job.checkpoint.resume == "must";
  const std::vector<checkpoint::Found> all =
      checkpoint::Store(checkpoint::checkpoints_folder(job.report.directory)).complete();
  if (job.checkpoint.resume == "never") return std::nullopt;
  if (all.empty()) {
    if (must)
      job.fail("checkpoint.resume",
               concat("is must, but there is no checkpoint in ",
                      checkpoint::checkpoints_folder(job.report.directory).string()));
    return std::nullopt;
  }
  const bool has_ended = has_completed(job.report.directory);
  if (!must && has_ended) return std::nullopt;
  const auto& [folder, step] = all.back();
  const auto [there, micro_batch, replicas, manifest] = header_of(all.back(), options);
  const Numbers here = numbers_of(io::parse(config::to_yaml(job), "this job"));
  std::vector<std::string> different = differences(here, there);
  if (manifest.data != data)
    different.emplace_back("the content of data files or model.files, or the model's code");
  if (!different.empty() && !must)
    job.fail("checkpoint.resume",
             concat("is auto, but the run in ", job.report.directory,
                    ", which has not ended, was of another job (", join(different, "; "),
                    "): 'must' resumes it all the same, 'never' keeps it under another name and "
                    "starts over, another report.directory leaves it as it is"));
  if (here.at(kOptimizer) != there.at(kOptimizer))
    job.fail(kOptimizer, concat("is ", here.at(kOptimizer), ", but ", folder.string(), " is of ",
                                there.at(kOptimizer),
                                ", whose moments mean something else: resume with that one, or "
                                "start over with checkpoint.resume: never"));
  for (const std::string& line : different)
    out << "note: not as in the checkpoint: " << visible(line) << "\n";
  note_arithmetic(
      manifest,
      {.threads = context.threads, .device = job.device, .vectors = at::get_cpu_capability()}, out);
  // A checkpoint of the last step and no summary: the run was stopped between the two.
  if (step > job.train.steps || (step == job.train.steps && has_ended))
    job.fail("train.steps", concat("is ", job.train.steps, ", but ", folder.string(), " is after ",
                                   step, " steps: nothing is left to train"));
  out << "resumes from " << visible(folder.string()) << "\n";
  return Resumption{
      .checkpoint = folder, .step = step, .micro_batch = micro_batch, .replicas = replicas};
}

bool has_completed(const fs::path& run) {
  const fs::path summary = run / "summary.json";
  try {
    return record::completed_steps(summary).has_value();
  } catch (const InputError& error) {
    throw InputError(concat(error.what(), "; remove ", summary.string(),
                            " to resume from the newest checkpoint, or start over with "
                            "checkpoint.resume: never"));
  }
}

Header header_of(const checkpoint::Found& found, const config::LoadOptions& options) {
  const fs::path& folder = found.folder;
  try {
    Header header{.job = {}, .manifest = checkpoint::load_manifest(found)};
    const io::Node document = checkpoint::load_job(folder, header.manifest);
    const config::JobSpec job = config::read_job(document, options);
    if (!job.train.micro_batch)
      job.fail(kMicroBatch, "is auto, must be a number: that of the checkpoint's steps");
    header.job = numbers_of(document);
    header.micro_batch = *job.train.micro_batch;
    header.replicas = job.pipeline.replicas.value_or(0);
    for (const std::string& key : {kMicroBatch, kOptimizer})
      if (!header.job.contains(key))
        throw InputError(concat(checkpoint::job_file(folder).string(), ": has no ", key,
                                ", must be the resolved job of the checkpoint"));
    if (const auto file = checkpoint::incomplete_file(header.manifest, folder))
      throw InputError(concat(file->string(), ": is not here with all its bytes"));
    return header;
  } catch (const Error& error) {
    throw InputError(concat(error.what(),
                            "; unless that is only temporary, the checkpoint was changed or is "
                            "damaged: remove ",
                            folder.string(),
                            " to resume from the one before it, or to start over if it is the "
                            "only one"));
  }
}

Numbers numbers_of(const io::Node& job) {
  Numbers keys;
  for (const std::string& section : kSections)
    if (const auto node = job.find(section)) flatten(*node, section, keys);
  for (const std::string& key : kWithoutEffect) keys.erase(key);
  return keys;
}

void note_arithmetic(const checkpoint::Manifest& there, const checkpoint::Manifest& here,
                     std::ostream& out) {
  const auto compare = [&](const char* what, const std::string& now, const std::string& before) {
    if (now != before && !before.empty())
      out << "note: not as in the checkpoint: " << what << ": " << now << ", there " << before
          << "; numbers may differ in their last bits\n";
  };
  compare("threads per rank", concat(here.threads), concat(there.threads));
  compare("device", here.device, there.device);
  if (here.device == "cpu") compare("the CPU's vectors", here.vectors, there.vectors);
}

int largest_size(int share, int most) {
  int size = std::min(share, most);
  while (share % size != 0) --size;
  return size;
}

std::vector<std::string> differences(Numbers here, const Numbers& there) {
  if (here[kMicroBatch] == "auto") here[kMicroBatch] = there.at(kMicroBatch);
  const auto value_in = [](const Numbers& keys, const std::string& key) {
    const auto found = keys.find(key);
    return found == keys.end() ? "nothing" : found->second;
  };
  std::set<std::string> keys;
  for (const Numbers* side : std::initializer_list<const Numbers*>{&here, &there})
    for (const auto& [key, value] : *side) keys.insert(key);
  std::vector<std::string> different;
  for (const std::string& key : keys) {
    const std::string mine = value_in(here, key), theirs = value_in(there, key);
    if (mine != theirs) different.push_back(concat(key, ": ", mine, ", there ", theirs));
  }
  return different;
}

}  // namespace
}  // namespace trireme::app
