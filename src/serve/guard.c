/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access control: see guard.h.
 *
 * The order matters: a request with a foreign Host or from another site is refused before its token is checked, so
 * that no other site can use up the one-time token. Secrets are compared in constant time.
 */
#include "serve/guard.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "base/compiler.h"

static bool random_hex(char *out, size_t digits)
{
	static const char hex[] = "0123456789abcdef";
	uint8_t bytes[GUARD_SECRET_BYTES / 2];

	ASSERT(digits / 2 <= sizeof bytes);
	if (getrandom(bytes, digits / 2, 0) != (ssize_t)(digits / 2))
		return false;
	for (size_t i = 0; i < digits; i++)
		out[i] = hex[bytes[i / 2] >> (i % 2 ? 0 : 4) & 15];
	out[digits] = '\0';
	return true;
}

bool guard_secret(char secret[GUARD_SECRET_BYTES])
{
	return random_hex(secret, GUARD_SECRET_BYTES - 1);
}

bool guard_init(struct guard *guard, const char *host, bool any_address)
{
	static const char prefix[] = "heapgauge-";

	*guard = (struct guard){ .host = host, .any_address = any_address };
	memcpy(guard->cookie_name, prefix, sizeof prefix);
	return random_hex(guard->cookie_name + strlen(prefix), 8) && guard_secret(guard->cookie) &&
	       guard_secret(guard->token) && guard_secret(guard->once);
}

static bool is_secret(const char *given, const char secret[GUARD_SECRET_BYTES])
{
	unsigned different = 0;

	if (!given || strlen(given) != GUARD_SECRET_BYTES - 1)
		return false;
	for (size_t i = 0; i < GUARD_SECRET_BYTES - 1; i++)
		different |= (unsigned char)given[i] ^ (unsigned char)secret[i];
	return different == 0;
}

/* "[::1]:8080" -> "::1". Returns false if it is not a host and port. */
static bool host_name(const char *host, char *name, size_t room)
{
	bool bracket = host[0] == '[';
	size_t length = bracket ? strcspn(host, "]") : strcspn(host, ":");
	const char *begin = bracket ? host + 1 : host, *behind = host + length;

	if (bracket) {
		if (*behind != ']')
			return false;
		behind++;
		length--;
	}
	if (length == 0 || length >= room)
		return false;
	if (*behind == ':')
		behind += 1 + strspn(behind + 1, "0123456789");
	memcpy(name, begin, length);
	name[length] = '\0';
	return *behind == '\0';
}

static bool is_address(const char *name)
{
	struct in6_addr address;

	return inet_pton(AF_INET, name, &address) == 1 || inet_pton(AF_INET6, name, &address) == 1;
}

/* Does not compare the port: a forwarded port may have any number. */
static bool is_our_host(const struct guard *guard, const char *host)
{
	static const char *const local[] = { "localhost", "127.0.0.1", "::1" };
	char name[256];

	if (!host || !host_name(host, name, sizeof name))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(local); i++)
		if (strcasecmp(name, local[i]) == 0)
			return true;
	return (guard->host && strcasecmp(name, guard->host) == 0) ||
	       (guard->any_address && is_address(name));
}

static bool is_own_origin(const char *origin, const char *host)
{
	static const char scheme[] = "http://";

	return strncasecmp(origin, scheme, strlen(scheme)) == 0 &&
	       strcasecmp(origin + strlen(scheme), host) == 0;
}

/* Another site may link to the page, but may request nothing else. */
static bool is_own_fetch(const struct guard_request *r)
{
	return !r->fetch_site || strcmp(r->path, "/") == 0 ||
	       strcmp(r->fetch_site, "same-origin") == 0 || strcmp(r->fetch_site, "none") == 0;
}

static bool enters(struct guard *guard, const char *token)
{
	return is_secret(token, guard->token) ||
	       (is_secret(token, guard->once) && !atomic_exchange(&guard->once_used, true));
}

enum guard_verdict guard_check(struct guard *guard, const struct guard_request *r)
{
	if (!is_our_host(guard, r->host) || (r->origin && !is_own_origin(r->origin, r->host)) ||
	    !is_own_fetch(r))
		return GUARD_CROSS_SITE;
	bool known = is_secret(r->cookie, guard->cookie);

	if (r->token && strcmp(r->path, "/") == 0)
		return enters(guard, r->token) || known ? GUARD_ENTER : GUARD_NO_COOKIE;
	return known ? GUARD_PASS : GUARD_NO_COOKIE;
}

/* The time depends on the length of what was sent, not on the token. */
static bool is_bearer(const char *authorization, const char *token)
{
	static const char scheme[] = "Bearer ";
	unsigned different = 0;

	if (!token || !authorization || strncasecmp(authorization, scheme, sizeof scheme - 1) != 0)
		return false;
	const char *given = authorization + sizeof scheme - 1;
	size_t length = strlen(token), sent = strlen(given);

	for (size_t i = 0; i < sent; i++)
		different |= (unsigned char)given[i] ^ (unsigned char)token[i % length];
	return different == 0 && sent == length;
}

enum guard_verdict guard_check_api(const struct guard *guard, const struct guard_request *r)
{
	if (is_bearer(r->authorization, guard->bearer))
		return GUARD_PASS;
	if (r->origin || r->fetch_site || !is_our_host(guard, r->host))
		return GUARD_CROSS_SITE;
	/* Whoever sends a token wants it checked. */
	return r->own_user && !r->authorization ? GUARD_PASS : GUARD_NO_COOKIE;
}
