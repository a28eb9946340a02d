// Reads the CPU resources of this process; cores.cpp derives thread counts from them.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/comm/cores.h"
#include "trireme/comm/host.h"
#include "trireme/core/text.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <numeric>
#include <sstream>
#include <thread>

namespace trireme::comm {
namespace {

/// Separators of a serialized RankCores' fields and of the items in a field.
constexpr char kField = '\t', kItem = '\n';

/// A control group (cgroup) hierarchy: its mount point, and this process's group in it.
struct Hierarchy {
  std::string mount;
  std::string path;  ///< below the mount point, "/a/b" or ""
  bool is_second = false;
};

std::vector<Hierarchy> hierarchies(std::string_view groups, std::string_view mounts);
/// The quota of one group; nothing if it has none.
std::optional<double> quota_in(const std::string& folder, bool is_second,
                               const std::function<std::string(const std::string&)>& read);
std::string read_text(const std::string& file);
std::vector<int> allowed_cores();
/// The number that `text` begins with, if it is positive.
std::optional<int> leading_count(std::string_view text);

}  // namespace

std::optional<WantedThreads> wanted_threads(
    const std::function<const char*(const char*)>& value_of) {
  for (const char* name : {"MKL_NUM_THREADS", "OMP_NUM_THREADS"}) {
    const char* const value = value_of(name);
    if (value == nullptr) continue;
    if (const auto count = leading_count(value))
      return WantedThreads{concat(name, "=", value), *count};
  }
  return std::nullopt;
}

std::vector<CpuQuota> cpu_quotas(std::string_view groups, std::string_view mounts,
                                 const std::function<std::string(const std::string&)>& read) {
  std::vector<CpuQuota> quotas;
  for (const Hierarchy& one : hierarchies(groups, mounts)) {
    for (std::string path = one.path;; path.resize(path.rfind('/'))) {
      const std::string folder = one.mount + path;
      if (const auto cores = quota_in(folder, one.is_second, read))
        quotas.push_back({folder, *cores});
      if (path.empty()) break;
    }
  }
  return quotas;
}

RankCores own_cores() {
  const auto value_of = [](const char* name) -> const char* {
    return std::getenv(name);  // NOLINT(concurrency-mt-unsafe): no thread sets any
  };
  RankCores own{.host = host_name(),
                .cores = allowed_cores(),
                .quotas = cpu_quotas(read_text("/proc/self/cgroup"),
                                     read_text("/proc/self/mountinfo"), read_text),
                .wanted = wanted_threads(value_of)};
  if (const char* const limit = value_of("OMP_THREAD_LIMIT")) own.most = leading_count(limit);
  return own;
}

std::string to_text(const RankCores& cores) {
  std::ostringstream text;
  text.precision(17);
  text << cores.host << kField;
  for (const int core : cores.cores) text << core << kItem;
  text << kField;
  for (const CpuQuota& quota : cores.quotas) text << quota.cores << ' ' << quota.group << kItem;
  text << kField;
  if (cores.wanted) text << cores.wanted->count << ' ' << cores.wanted->variable;
  text << kField << cores.most.value_or(0);
  return text.str();
}

RankCores read_cores(const std::string& text) {
  const std::vector<std::string> fields = split(text, kField);
  RankCores cores{.host = fields.at(0)};
  for (const std::string& item : split(fields.at(1), kItem))
    if (!item.empty()) cores.cores.push_back(std::stoi(item));
  for (const std::string& item : split(fields.at(2), kItem))
    if (!item.empty()) cores.quotas.push_back({item.substr(item.find(' ') + 1), std::stod(item)});
  const std::string& wanted = fields.at(3);
  if (!wanted.empty())
    cores.wanted = WantedThreads{wanted.substr(wanted.find(' ') + 1), std::stoi(wanted)};
  if (const int most = std::stoi(fields.at(4)); most > 0) cores.most = most;
  return cores;
}

namespace {

std::vector<Hierarchy> hierarchies(std::string_view groups, std::string_view mounts) {
  std::vector<Hierarchy> found;
  for (const std::string& line : split(groups, '\n')) {
    const auto fields = split(line, ':');
    if (fields.size() < 3) continue;
    const bool is_second = fields[0] == "0" && fields[1].empty();
    const auto controllers = split(fields[1], ',');
    if (!is_second && std::count(controllers.begin(), controllers.end(), "cpu") == 0) continue;
    const std::string group = line.substr(fields[0].size() + fields[1].size() + 2);
    // "36 35 98:0 ROOT POINT options [tags] - TYPE source options" (proc(5)).
    for (const std::string& mount : split(mounts, '\n')) {
      const auto words = split(mount, ' ');
      const auto dash = std::find(words.begin(), words.end(), "-");
      if (words.size() < 6 || words.end() - dash < 4) continue;
      const auto options = split(dash[3], ',');
      const bool fits =
          is_second ? dash[1] == "cgroup2"
                    : dash[1] == "cgroup" && std::count(options.begin(), options.end(), "cpu") > 0;
      if (!fits) continue;
      // A mount shows a part of the hierarchy, which may be the process's own or one above it.
      const std::string root = words[3] == "/" ? "" : words[3];
      const bool is_below = group == root || group.starts_with(root + "/");
      std::string path = is_below ? group.substr(root.size()) : "";
      if (path.ends_with('/')) path.pop_back();
      found.push_back({words[4], path, is_second});
      break;
    }
  }
  return found;
}

std::optional<double> quota_in(const std::string& folder, bool is_second,
                               const std::function<std::string(const std::string&)>& read) {
  // "50000 100000" or "max 100000"; in version 1 two files, and -1 for no quota.
  std::istringstream text(is_second ? read(folder + "/cpu.max")
                                    : read(folder + "/cpu.cfs_quota_us") + " " +
                                          read(folder + "/cpu.cfs_period_us"));
  double quota = 0, period = 0;
  if (!(text >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

std::string read_text(const std::string& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<int> allowed_cores() {
  std::vector<int> processors;
  // The set must hold as many processors as the kernel supports, a number that is not known.
  for (int count = 1024; count <= 1 << 20 && processors.empty(); count *= 2) {
    cpu_set_t* const set = CPU_ALLOC(count);
    if (set == nullptr) break;
    const std::size_t size = CPU_ALLOC_SIZE(count);
    CPU_ZERO_S(size, set);
    if (sched_getaffinity(0, size, set) == 0) {
      for (int one = 0; one < count; ++one)
        if (CPU_ISSET_S(one, size, set)) processors.push_back(one);
    }
    CPU_FREE(set);
  }
  if (processors.empty()) {
    processors.resize(std::max(1U, std::thread::hardware_concurrency()));
    std::iota(processors.begin(), processors.end(), 0);
  }
  // A core is named by the first of its hardware threads: "0,4" or "0-1".
  std::vector<int> cores;
  for (const int one : processors) {
    const std::string siblings =
        read_text(concat("/sys/devices/system/cpu/cpu", one, "/topology/thread_siblings_list"));
    int first = one;
    std::from_chars(siblings.data(), siblings.data() + siblings.size(), first);
    cores.push_back(first);
  }
  std::sort(cores.begin(), cores.end());
  cores.erase(std::unique(cores.begin(), cores.end()), cores.end());
  return cores;
}

std::optional<int> leading_count(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  int count = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), count);
  if (end.ec != std::errc() || count <= 0) return std::nullopt;
  const auto rest = text.substr(static_cast<std::size_t>(end.ptr - text.data()));
  const bool is_list = rest.empty() || rest.starts_with(',') || rest.starts_with(' ');
  return is_list ? std::optional(count) : std::nullopt;
}

}  // namespace
}  // namespace trireme::comm
