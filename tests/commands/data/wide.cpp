#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <vector>

int main()
{
	std::map<std::string, std::vector<std::unique_ptr<int>>> all;

	for (int i = 0; i < 5000; i++)
		all["key" + std::to_string(i % 97)].push_back(std::make_unique<int>(i));
	try {
		throw std::regex_error(std::regex_constants::error_stack);
	} catch (const std::exception &problem) {
		std::cout << std::regex_replace(std::string("a-b-c"), std::regex("-"), "+") << '\n';
	}
	std::cout << all.size() << ' ' << all["key5"].size() << '\n';
}
