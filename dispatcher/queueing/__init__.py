"""Who waits: in the queue, by class and priority, or outside of it for something; pure."""
