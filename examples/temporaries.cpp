/* SPDX-License-Identifier: Apache-2.0 */
/* Looks prices up by name, a hundred thousand times. Nothing leaks and the peak is small. Where does the time go?
 *
 *     c++ -g -O1 -o temporaries temporaries.cpp && heapgauge record -o temporaries.hg ./temporaries */
#include <cstdio>
#include <map>
#include <string>

static const char *const names[] = {"a kilogram of green apples", "a litre of whole milk", "ten eggs of happy hens"};

static std::map<std::string, int> read_prices()
{
	std::map<std::string, int> prices;

	for (const char *name : names)
		prices[name] = 100 + static_cast<int>(prices.size());
	return prices;
}

static int price_of(const std::map<std::string, int> &prices, const char *name)
{
	auto found = prices.find(name); // a std::string is made of the name, and thrown away

	return found == prices.end() ? 0 : found->second;
}

int main()
{
	const std::map<std::string, int> prices = read_prices();
	long sum = 0;

	for (int i = 0; i < 100000; i++)
		sum += price_of(prices, names[i % 3]);
	std::printf("%ld\n", sum);
	return 0;
}
