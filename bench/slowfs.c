/* A file system that shows another folder as it is, and takes its time: a stand-in for a loaded parallel file system.
 *
 *   slowfs SOURCE MOUNTPOINT METADATA_US READ_US [LIBFUSE OPTION...]
 *
 * Each metadata operation waits METADATA_US microseconds first, each read READ_US. The kernel may cache names and attributes for
 * a second, as libfuse has it by default, and has at most MOST operations at once. Read-only. On SIGUSR1 it writes the operations
 * so far to standard error: "metadata N reads N bytes N".
 */
#define FUSE_USE_VERSION 312
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <fuse_lowlevel.h>
#include <limits.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define MOST 64

/* What one kind of operation takes, and how often it was asked for. */
static struct kind {
	atomic_ulong operations;
	long us;
} metadata, reads;
static atomic_ulong bytes;
static int source;

static void wait_us(long us)
{
	struct timespec rest = {us / 1000000, us % 1000000 * 1000};

	while (us && nanosleep(&rest, &rest) && errno == EINTR)
		;
}

/* Count and delay one operation. */
static void serve(struct kind *kind)
{
	kind->operations++;
	wait_us(kind->us);
}

/* Serve one metadata operation, and return its path relative to the source. */
static const char *at(const char *path)
{
	serve(&metadata);
	return path[1] ? path + 1 : ".";
}

static void report(int number)
{
	(void)number;
	dprintf(STDERR_FILENO, "metadata %lu reads %lu bytes %lu\n", metadata.operations, reads.operations, bytes);
}

static ssize_t receive(int connection, void *request, size_t size, void *data)
{
	(void)data;
	return read(connection, request, size);
}

/* Send a reply; the first is that to the kernel's INIT. */
static ssize_t reply(int connection, struct iovec *parts, int count, void *data)
{
	static atomic_flag is_not_first;

	(void)data;
	if (!atomic_flag_test_and_set(&is_not_first) && count == 2)
		((struct fuse_init_out *)parts[1].iov_base)->flags |= FUSE_PARALLEL_DIROPS;
	return writev(connection, parts, count);
}

/* Parallel file systems look up many names of one folder at once. The libfuse of Debian 12 does not tell the kernel that it
 * may, even if FUSE_CAP_PARALLEL_DIROPS is wanted (its pull request 861), so its replies pass through here. */
static void *slow_init(struct fuse_conn_info *connection, struct fuse_config *config)
{
	static const struct fuse_custom_io io = {.read = receive, .writev = reply};
	struct fuse_session *session = fuse_get_session(fuse_get_context()->fuse);

	if (fuse_session_custom_io(session, &io, fuse_session_fd(session)))
		exit(1);
	connection->max_background = MOST;
	config->use_ino = 1;
	return NULL;
}

static int slow_getattr(const char *path, struct stat *status, struct fuse_file_info *file)
{
	(void)file;
	return fstatat(source, at(path), status, AT_SYMLINK_NOFOLLOW) ? -errno : 0;
}

static int slow_readlink(const char *path, char *target, size_t size)
{
	ssize_t length = readlinkat(source, at(path), target, size - 1);

	if (length < 0)
		return -errno;
	target[length] = '\0';
	return 0;
}

static int slow_readdir(const char *path, void *buffer, fuse_fill_dir_t fill, off_t offset, struct fuse_file_info *file,
			enum fuse_readdir_flags flags)
{
	int folder = openat(source, at(path), O_RDONLY | O_DIRECTORY);
	DIR *stream = folder < 0 ? NULL : fdopendir(folder);
	struct dirent *entry;

	(void)offset, (void)file, (void)flags;
	if (!stream)
		return -errno;
	while ((entry = readdir(stream))) {
		struct stat status = {.st_ino = entry->d_ino, .st_mode = DTTOIF(entry->d_type)};

		fill(buffer, entry->d_name, &status, 0, 0);
	}
	closedir(stream);
	return 0;
}

static int slow_open(const char *path, struct fuse_file_info *file)
{
	int descriptor = openat(source, at(path), O_RDONLY);

	if (descriptor < 0)
		return -errno;
	file->fh = descriptor;
	return 0;
}

static int slow_read(const char *path, char *buffer, size_t size, off_t offset, struct fuse_file_info *file)
{
	ssize_t length;

	(void)path;
	serve(&reads);
	length = pread(file->fh, buffer, size, offset);
	if (length < 0)
		return -errno;
	bytes += length;
	return length;
}

static int slow_release(const char *path, struct fuse_file_info *file)
{
	(void)path;
	close(file->fh);
	return 0;
}

static int slow_statfs(const char *path, struct statvfs *status)
{
	(void)path;
	return fstatvfs(source, status) ? -errno : 0;
}

static const struct fuse_operations operations = {
	.init = slow_init,
	.getattr = slow_getattr,
	.readlink = slow_readlink,
	.readdir = slow_readdir,
	.open = slow_open,
	.read = slow_read,
	.release = slow_release,
	.statfs = slow_statfs,
};

int main(int count, char **arguments)
{
	struct sigaction action = {.sa_handler = report, .sa_flags = SA_RESTART};
	char *threads;

	if (count < 5) {
		fprintf(stderr, "usage: slowfs SOURCE MOUNTPOINT METADATA_US READ_US [LIBFUSE OPTION...]\n");
		return 2;
	}
	source = open(arguments[1], O_RDONLY | O_DIRECTORY);
	if (source < 0) {
		perror(arguments[1]);
		return 1;
	}
	metadata.us = atol(arguments[3]);
	reads.us = atol(arguments[4]);
	sigaction(SIGUSR1, &action, NULL);
	if (asprintf(&threads, "-omax_threads=%d", MOST) < 0)
		return 1;
	arguments[4] = threads;
	arguments[3] = arguments[2];
	arguments[2] = arguments[0];
	return fuse_main(count - 2, arguments + 2, &operations, NULL);
}
