// SPDX-License-Identifier: Apache-2.0
// Compiled by cc1plus as a workload: many small allocations from very many distinct stacks.
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

template <int N> struct Store {
	using Row = std::tuple<int, std::string, double, std::integral_constant<int, N>>;
	std::map<std::string, std::vector<std::pair<int, Row>>> rows;

	void add(const std::string &line)
	{
		std::regex word("([a-z]+)" + std::to_string(N));
		std::smatch match;
		if (std::regex_search(line, match, word))
			rows[match[1]].push_back({ N, { N, line, 1.0 * N, {} } });
		std::sort(rows[line].begin(), rows[line].end(), [](auto &a, auto &b) { return a.first < b.first; });
		std::function<int(int)> size = [this](int extra) { return (int)rows.size() + extra + N; };
		std::variant<int, std::string, std::integral_constant<int, N>> value = size(3);
		std::visit([](auto &&v) { (void)v; }, value);
		std::cout << rows.size();
	}
};

int main()
{
	for (std::string line; std::getline(std::cin, line);) {
		Store<0>().add(line);
		Store<1>().add(line);
		Store<2>().add(line);
	}
}
