/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * fake_python MODE: a program with a _PyRuntime that no CPython made. MODE is what is wrong with it (see main()). Its
 * table for debuggers says that it is 3.14, with offsets of its own: each field of a structure at a multiple of 8.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern uint64_t _PyRuntime[];
__attribute__((section(".PyRuntime"))) uint64_t _PyRuntime[4096] = { 1 };

static uint64_t interp[16], tstate[16], frame[16], code[80], type[80];

/* Byte positions in the table of 3.14 and what this program has there. */
static void make_table(void)
{
	static const uint16_t entries[][2] = {
		{ 40, 1024 },            /* the list of interpreters; main behind it */
		{ 64, 0 },    { 72, 8 }, /* interpreter: next, threads */
		{ 192, 0 },   { 200, 8 },  { 208, 16 }, { 216, 24 }, /* thread: next, interp, frame, id */
		{ 256, 0 },   { 264, 8 },  { 272, 16 }, { 288, 24 }, /* frame: previous, code, instr, owner */
		{ 320, 16 },  { 328, 24 }, { 336, 32 }, { 344, 40 }, { 352, 48 },
		{ 384, 56 },               /* code */
		{ 408, 8 },   { 424, 16 }, /* object's type, type's name */
		{ 600, 16 },  { 608, 32 }, { 624, 32 }, { 632, 16 }, { 640, 40 }, /* bytes, str */
	};

	memset(_PyRuntime, 0, sizeof(_PyRuntime));
	memcpy(_PyRuntime, "xdebugpy", 8);
	_PyRuntime[1] = 0x030e02f0;
	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
		_PyRuntime[entries[i][0] / 8] = entries[i][1];
}

static pthread_key_t key;

static void make_thread(void)
{
	_PyRuntime[128] = _PyRuntime[129] = (uint64_t)interp;
	interp[1] = (uint64_t)tstate;
	tstate[1] = (uint64_t)interp;
	tstate[2] = (uint64_t)frame;
	tstate[3] = (uint64_t)pthread_self();
	if (pthread_key_create(&key, NULL) || pthread_setspecific(key, tstate))
		exit(1);
	memcpy((char *)_PyRuntime + 2340, &key, sizeof(key)); /* autoTSSkey of 3.14 */
}

/* A frame of a code object whose texts are at `text`. */
static void make_frame(uint64_t text)
{
	frame[1] = (uint64_t)code;
	frame[2] = (uint64_t)code + 56;
	code[1] = (uint64_t)type;
	type[2] = (uint64_t) "code";
	code[2] = code[4] = code[5] = text;
}

/* Threads of many frames, all of a code object that takes long to read, but for the last one, which has none. */
static void make_slow(void)
{
	static uint64_t tstates[16][16], threads[16][256], frames[64][16], str[8],
		table[(1 << 20) / 8 + 8];

	str[2] = 1;                        /* length */
	str[4] = 1 << 2 | 1 << 5 | 1 << 6; /* one byte each, compact, ASCII */
	str[5] = 'x';
	table[2] = sizeof(table) - 64;
	memset(&table[4], 0x80, sizeof(table) - 64);
	code[0] = 1;
	code[2] = code[4] = (uint64_t)str;
	code[6] = 1; /* the first line */
	code[12] = (uint64_t)table;
	_PyRuntime[344 / 8] = 96; /* its place */
	for (int i = 0; i < 64; i++) {
		frames[i][0] = i < 63 ? (uint64_t)frames[i + 1] : 0;
		frames[i][1] = i < 63 ? (uint64_t)code : 8;
		frames[i][2] = frames[i][1] + 56 + (1 << 21) - 16;
	}
	for (int i = 0; i < 16; i++) {
		tstates[i][0] = i < 15 ? (uint64_t)tstates[i + 1] : 0;
		tstates[i][1] = (uint64_t)interp;
		tstates[i][2] = (uint64_t)frames;
		tstates[i][3] = threads[i][2] = (uint64_t)threads[i];
		threads[i][(0x310 + 16 * key + 8) / 8] = (uint64_t)tstates[i];
	}
	tstate[0] = (uint64_t)tstates;
	tstate[2] = (uint64_t)frames;
}

static void make_garbage(void)
{
	srandom(1);
	for (size_t i = 1; i < sizeof(_PyRuntime) / 8; i++)
		_PyRuntime[i] = (uint64_t)random() << 32 | (uint64_t)random();
	_PyRuntime[1] = 0x030e02f0;
	_PyRuntime[2] = 0;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	make_table();
	make_thread();
	make_frame((uint64_t)code);
	if (!strcmp(mode, "zero"))
		memset(_PyRuntime, 0, sizeof(_PyRuntime));
	else if (!strcmp(mode, "garbage"))
		make_garbage();
	else if (!strcmp(mode, "preliminary"))
		_PyRuntime[1] = 0x030f00b2;
	else if (!strcmp(mode, "future"))
		_PyRuntime[1] = 0x032a00f0;
	else if (!strcmp(mode, "free-threaded"))
		_PyRuntime[2] = 1;
	else if (!strcmp(mode, "interpreters")) /* a circle without the main one */
		_PyRuntime[128] = interp[0] = (uint64_t)tstate;
	else if (!strcmp(mode, "threads")) /* a circle of one whose pointer is wrong */
		tstate[0] = tstate[3] = (uint64_t)tstate;
	else if (!strcmp(mode, "slot"))
		_PyRuntime[2336 / 8] = UINT64_MAX;
	else if (!strcmp(mode, "frames")) /* a circle; no code objects */
		frame[0] = (uint64_t)frame, code[1] = 1;
	else if (!strcmp(mode, "native")) /* a circle of frames that are passed over */
		frame[0] = (uint64_t)frame, frame[3] = 4;
	else if (!strcmp(mode, "slow"))
		make_slow();
	else if (strcmp(mode, "texts") != 0) /* texts that are none */
		return 2;
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
