/* SPDX-License-Identifier: Apache-2.0 */
/* A small HTTP/1.1 front end: parses requests from memory, answers them, and rejects those with a bad Content-Length. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct header {
	struct header *next;
	char *value;
	char text[];
};

struct request {
	char *method;
	char *target;
	struct header *headers;
	long content_length;
};

static double monotonic_seconds(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void free_headers(struct header *header)
{
	while (header) {
		struct header *next = header->next;
		free(header);
		header = next;
	}
}

/* Parses the header lines of a request. Returns the list, or NULL with *status set to 400. */
static __attribute__((noinline)) struct header *parse_headers(const char *cursor,
							      long *content_length, int *status)
{
	struct header *list = NULL;
	while (*cursor && strncmp(cursor, "\r\n", 2) != 0) {
		const char *end = strstr(cursor, "\r\n");
		size_t length = (size_t)(end - cursor);
		struct header *header = malloc(sizeof *header + length + 1);
		if (!header)
			abort();
		memcpy(header->text, cursor, length);
		header->text[length] = '\0';
		header->value = strchr(header->text, ':');
		*header->value++ = '\0';
		while (*header->value == ' ')
			header->value++;
		header->next = list;
		list = header;
		if (strcmp(header->text, "Content-Length") == 0) {
			char *rest;
			*content_length = strtol(header->value, &rest, 10);
			if (*rest || *content_length < 0) {
				*status = 400;
				return NULL;
			}
		}
		cursor = end + 2;
	}
	*status = 200;
	return list;
}

static __attribute__((noinline)) struct request *parse_request(const char *text, int *status)
{
	struct request *request = calloc(1, sizeof *request);
	const char *space = strchr(text, ' ');
	const char *second = strchr(space + 1, ' ');
	request->method = strndup(text, (size_t)(space - text));
	request->target = strndup(space + 1, (size_t)(second - space - 1));
	request->headers =
		parse_headers(strstr(text, "\r\n") + 2, &request->content_length, status);
	return request;
}

static void free_request(struct request *request)
{
	free_headers(request->headers);
	free(request->method);
	free(request->target);
	free(request);
}

static __attribute__((noinline)) size_t write_response(const struct request *request, int status)
{
	char *body = malloc(4096);
	size_t length = (size_t)snprintf(body, 4096, "HTTP/1.1 %d\r\nServer: mini\r\n\r\n%s %s",
					 status, request->method, request->target);
	free(body);
	return length;
}

static void compose_request(char *buffer, size_t size, unsigned number)
{
	static const char token[] =
		"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789abcdefghijklmnopqrstuvwxyz";
	const char *length = number % 3 == 0 ? "12kb" : "1200";
	snprintf(
		buffer, size,
		"POST /api/orders/%u HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: client/%u\r\n"
		"Cookie: session=%s%s%s; tracking=%s%s; cart=%s\r\nAccept: */*\r\n"
		"Authorization: Bearer %s%s%s%s\r\nX-Request-Id: %08x\r\nX-Forwarded-For: 10.0.%u.%u\r\nContent-Length: %s\r\n\r\n",
		number, number % 17, token, token, token, token, token, token, token, token, token,
		token, number * 2654435761u, number / 256 % 256, number % 256, length);
}

int main(int argc, char **argv)
{
	double end = monotonic_seconds() + (argc > 1 ? atof(argv[1]) : 4.0);
	const struct timespec pause = { 0, 10 * 1000 * 1000 };
	unsigned number = 0;
	size_t written = 0;
	char text[4096];
	while (monotonic_seconds() < end) {
		for (int i = 0; i < 15; i++) {
			int status = 0;
			compose_request(text, sizeof text, number++);
			struct request *request = parse_request(text, &status);
			written += write_response(request, status);
			free_request(request);
		}
		nanosleep(&pause, NULL);
	}
	return written == 1;
}
