// SPDX-License-Identifier: Apache-2.0
#include "markup.h"

#include "style.h"

#include "trireme/core/text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>

namespace trireme::report {
namespace {

bool is_number(std::string_view cell);
/// Whether a cell is empty, a dash, "none" or a zero.
bool says_nothing(std::string_view cell);
/// Whether the first cell of the column that is not empty, the head aside, is a number.
bool has_numbers(const std::vector<std::vector<std::string>>& rows, std::size_t column);

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        // Control characters have no place in XML, not even escaped.
        out += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? ' ' : c;
    }
  }
  return out;
}

std::string element(std::string_view name, Attributes attributes, std::string_view content) {
  std::string out = concat("<", name);
  for (const auto& [key, value] : attributes) out += concat(" ", key, "=\"", escaped(value), "\"");
  return concat(out, ">", content, "</", name, ">");
}

std::string pixels(double length) {
  std::array<char, 32> buffer{};
  const double rounded = std::round(length * 10) / 10;
  std::snprintf(buffer.data(), buffer.size(), "%.*f", rounded == std::round(rounded) ? 0 : 1,
                rounded == 0 ? 0.0 : rounded);
  return buffer.data();
}

std::string title(std::string_view text) {
  return element("title", {}, escaped(text));
}

std::string label(double x, double y, std::string_view how, std::string_view text) {
  return element("text", {{"x", pixels(x)}, {"y", pixels(y)}, {"class", std::string(how)}},
                 escaped(text));
}

std::string line(double x1, double y1, double x2, double y2, std::string_view how) {
  return element("line", {{"x1", pixels(x1)},
                          {"y1", pixels(y1)},
                          {"x2", pixels(x2)},
                          {"y2", pixels(y2)},
                          {"class", std::string(how)}});
}

std::string path(std::string_view steps, std::string_view how, std::string_view inside) {
  return element("path", {{"d", std::string(steps)}, {"class", std::string(how)}}, inside);
}

std::string svg(double width, double height, std::string_view name, std::string_view content) {
  return element("div", {{"class", "picture"}},
                 element("svg",
                         {{"xmlns", "http://www.w3.org/2000/svg"},
                          {"viewBox", concat("0 0 ", pixels(width), " ", pixels(height))},
                          {"width", pixels(width)},
                          {"height", pixels(height)},
                          {"role", "img"},
                          {"aria-label", std::string(name)}},
                         content)) +
         "\n";
}

std::string card(std::string_view what, std::string_view much,
                 const std::vector<std::string>& more) {
  std::string inside = element("div", {{"class", "what"}}, escaped(what)) +
                       element("div", {{"class", "much"}}, escaped(much));
  for (const std::string& text : more) inside += element("div", {{"class", "more"}}, escaped(text));
  return element("div", {{"class", "card"}}, inside);
}

std::string html_table(const std::vector<std::vector<std::string>>& rows) {
  if (rows.empty()) return "";
  std::string head, body;
  for (std::size_t c = 0; c < rows.front().size(); ++c) {
    head += element("th", {{"class", has_numbers(rows, c) ? "right" : "left"}},
                    escaped(rows.front()[c]));
  }
  for (std::size_t r = 1; r < rows.size(); ++r) {
    std::string cells;
    for (const std::string& cell : rows[r])
      cells += element("td", {{"class", is_number(cell) ? "right" : "left"}}, escaped(cell));
    body += element("tr", {}, cells) + "\n";
  }
  return element("div", {{"class", "table"}},
                 element("table", {},
                         concat(element("thead", {}, element("tr", {}, head)), "\n",
                                element("tbody", {}, body)))) +
         "\n";
}

std::vector<std::vector<std::string>> without_empty_columns(
    std::vector<std::vector<std::string>> rows) {
  if (rows.size() < 2) return rows;
  for (std::size_t c = rows.front().size(); c-- > 0;) {
    const bool is_empty = std::all_of(rows.begin() + 1, rows.end(),
                                      [c](const auto& row) { return says_nothing(row[c]); });
    if (!is_empty) continue;
    for (auto& row : rows) row.erase(row.begin() + static_cast<std::ptrdiff_t>(c));
  }
  return rows;
}

std::string page(std::string_view name, std::string_view body) {
  const std::string head =
      concat("<meta charset=\"utf-8\"/>",
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>",
             title(name), element("style", {}, kStyle));
  return concat("<!DOCTYPE html>\n",
                element("html", {{"lang", "en"}},
                        concat(element("head", {}, head), "\n",
                               element("body", {}, element("main", {}, body)))),
                "\n");
}

namespace {

bool is_number(std::string_view cell) {
  if (cell == "-") return true;
  if (cell.starts_with('+') || cell.starts_with('-')) cell.remove_prefix(1);
  return !cell.empty() && std::isdigit(static_cast<unsigned char>(cell.front())) != 0;
}

bool says_nothing(std::string_view cell) {
  return cell.empty() || cell == "-" || cell == "none" || cell.starts_with("0 ");
}

bool has_numbers(const std::vector<std::vector<std::string>>& rows, std::size_t column) {
  const auto found = std::find_if(rows.begin() + 1, rows.end(),
                                  [&](const auto& row) { return !row[column].empty(); });
  return found != rows.end() && is_number((*found)[column]);
}

}  // namespace
}  // namespace trireme::report
