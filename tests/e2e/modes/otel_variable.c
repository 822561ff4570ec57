/* SPDX-License-Identifier: Apache-2.0 */
/* The thread-local variable of OTEP 4947, as an SDK exports it: in the executable or in a library, by several TLS models. */
#ifdef LARGE /* too large for the space that the loader keeps for libraries that are loaded later */
__thread char large[4096];
char *large_here(void);
char *large_here(void)
{
	return large;
}
#endif
__attribute__((visibility("default"))) __thread void *otel_thread_ctx_v1;

void context_attach(void *record);
void context_attach(void *record)
{
	otel_thread_ctx_v1 = record;
}
